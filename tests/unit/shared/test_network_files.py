"""Files of other hosts appear late, replies of servers get lost, and deleted files stay for a while."""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS
from jprep.io.atomic import fsync_path, remove_contents, write_atomic
from jprep.io.shared import network_files
from jprep.io.shared.file_systems import LOCKS_VARIABLE, describe_flock, file_system_of, flock_of
from jprep.io.shared.network_files import (
    create_exclusively,
    exists_now,
    is_silly_rename,
    replace_file,
    retry_stale,
    wait_for_file,
)
from jprep.io.verified_files import find_damage, read_if_exists
from jprep.train.run.checkpoints import CheckpointStore

ESTALE = OSError(errno.ESTALE, os.strerror(errno.ESTALE))


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that other hosts may share."""
    monkeypatch.setenv(LOCKS_VARIABLE, "host")
    monkeypatch.setattr(network_files, "_waited", {})


class Cache:
    """The entries of directories that a client has cached: files that others create are seen after a listing only."""

    def __init__(self, patch: pytest.MonkeyPatch, listings: int) -> None:
        self.hidden: dict[str, int] = {}
        self._listings, self._stat, self._list = listings, os.stat, os.listdir
        patch.setattr(os, "stat", self._cached_stat)
        patch.setattr(os, "listdir", self._cached_list)

    def write_elsewhere(self, path: Path, data: bytes = b"") -> None:
        path.write_bytes(data)
        self.hidden[str(path)] = self._listings

    def _cached_stat(self, path: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if self.hidden.get(str(path)):
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
        return self._stat(path, *arguments, **options)

    def _cached_list(self, folder: Any = ".") -> list[str]:
        names = self._list(folder)
        for name in names:
            path = f"{folder}/{name}"
            self.hidden[path] = max(0, self.hidden.get(path, 0) - 1)
        return [name for name in names if not self.hidden.get(f"{folder}/{name}")]


def lost_reply(operation: Callable[..., None], number: int) -> Callable[..., None]:
    """An operation that happens, and whose repetition fails."""

    def call(*arguments: Any, **options: Any) -> None:
        operation(*arguments, **options)
        raise OSError(number, os.strerror(number), str(arguments[0]))

    return call


@pytest.mark.usefixtures("shared")
def test_a_file_of_another_host_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(monkeypatch, 3)
    cache.write_elsewhere(tmp_path / "part", b"text")
    assert not (tmp_path / "part").exists()
    assert find_damage(tmp_path / "part", "0" * 64) == "was changed or damaged"


@pytest.mark.usefixtures("shared")
def test_in_one_directory_is_waited_in_vain_once(tmp_path: Path) -> None:
    assert not wait_for_file(tmp_path / "one", 0.2)
    begun = time.monotonic()
    assert not wait_for_file(tmp_path / "other", 3600)
    assert time.monotonic() - begun < 1800


def test_a_local_disk_is_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("it waits"))
    assert find_damage(tmp_path / "part", "0" * 64) == "is missing"


@pytest.mark.usefixtures("shared")
def test_a_checkpoint_of_another_host_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = CheckpointStore(tmp_path, "job")
    with store.saving(10) as folder:
        (folder / "weights").write_bytes(b"1")
    cache = Cache(monkeypatch, 2)
    cache.hidden = {str(tmp_path / "step-00000010" / name): 2 for name in ("COMMIT.json", "weights")}
    found = store.latest(lambda path, problem: pytest.fail(problem))
    assert found and found.step == 10


def test_stale_handles_are_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "receipt").write_bytes(b"{}")
    errors, read = [ESTALE, ESTALE], Path.read_bytes

    def read_bytes(path: Path) -> bytes:
        if errors:
            raise errors.pop()
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", read_bytes)
    assert read_if_exists(tmp_path / "receipt") == b"{}"
    assert errors == []


def test_a_handle_that_stays_stale_is_an_error() -> None:
    def fail() -> None:
        raise ESTALE

    with pytest.raises(OSError, match="Stale"):
        retry_stale(fail)


def test_a_rename_whose_reply_was_lost_succeeds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "rename", lost_reply(os.rename, errno.ENOENT))
    monkeypatch.setattr(os, "replace", lost_reply(os.replace, errno.ENOENT))
    write_atomic(tmp_path / "file", b"data")
    assert (tmp_path / "file").read_bytes() == b"data"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_rename_of_a_file_that_another_process_deleted_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").touch()
    (tmp_path / "old").touch()
    replace = os.replace

    def deleted(source: Path, target: Path) -> None:
        source.unlink()
        replace(source, target)

    monkeypatch.setattr(os, "replace", deleted)
    with pytest.raises(FileNotFoundError):
        replace_file(tmp_path / "new", tmp_path / "old")


def test_only_one_creates_a_file(tmp_path: Path) -> None:
    created: list[bool] = []
    threads = [
        threading.Thread(target=lambda: created.append(create_exclusively(tmp_path / "part", b"x"))) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(created) == [False] * 7 + [True]
    assert [path.name for path in tmp_path.iterdir()] == ["part"]


@pytest.mark.parametrize("number", [errno.EEXIST, errno.ENOENT])
def test_a_link_whose_reply_was_lost_succeeds(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", lost_reply(os.link, number))
    assert create_exclusively(tmp_path / "part")


def test_a_file_is_created_where_there_are_no_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any, **options: Any) -> None:
        raise OSError(errno.EOPNOTSUPP, "no links")

    monkeypatch.setattr(os, "link", fail)
    assert create_exclusively(tmp_path / "part", b"x") and not create_exclusively(tmp_path / "part", b"y")
    assert (tmp_path / "part").read_bytes() == b"x"


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_directories_that_cannot_be_flushed(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(handle: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    fsync_path(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(OSError):
        fsync_path(tmp_path / "file")


SILLY = ".nfs00000000000a1b2c00000001"


def test_deleted_files_that_are_still_open_are_not_foreign(tmp_path: Path) -> None:
    assert is_silly_rename(SILLY) and is_silly_rename(".fuse_hidden0000000400000001")
    assert not is_silly_rename(".nfs") and not is_silly_rename("a.nfs00000000000a1b2c00000001")
    (tmp_path / SILLY).touch()
    OutputDirectory(tmp_path, CORPUS).check()


def test_deleted_files_that_are_still_open_cannot_be_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / SILLY).touch()
    (tmp_path / "file").touch()
    unlink = os.unlink

    def busy(path: Path, *arguments: Any, **options: Any) -> None:
        if is_silly_rename(Path(path).name):
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY), str(path))
        unlink(path, *arguments, **options)

    monkeypatch.setattr(os, "unlink", busy)
    remove_contents(tmp_path, keep="LOCK")
    assert [path.name for path in tmp_path.iterdir()] == [SILLY]


def test_a_deleted_file_in_a_checkpoint_is_no_damage(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, "job")
    with store.saving(10) as folder:
        (folder / "weights").write_bytes(b"1")
        (folder / SILLY).touch()
    assert store.latest(lambda path, problem: pytest.fail(problem))


@pytest.mark.parametrize(
    ("mounted", "options", "flock"),
    [
        ("ext4", "rw,relatime", "local"),
        ("overlay", "rw", "local"),
        ("fuse.fuse-overlayfs", "rw", "local"),
        ("nfs4", "rw,vers=4.2,hard,local_lock=none", "across"),
        ("nfs", "rw,vers=3,nolock,local_lock=all", "host"),
        ("nfs", "rw,vers=3,local_lock=flock", "host"),
        ("nfs", "rw,vers=3,local_lock=posix", "across"),
        ("lustre", "rw,flock,user_xattr", "across"),
        ("lustre", "rw,localflock", "host"),
        ("lustre", "rw,noflock", "none"),
        ("lustre", "rw", "host"),
        ("ceph", "rw", "across"),
        ("fuse.sshfs", "rw", "host"),
        ("gpfs", "rw", "host"),
        ("", "", "local"),
    ],
)
def test_where_flock_works(mounted: str, options: str, flock: str) -> None:
    assert flock_of(mounted, frozenset(options.split(","))) == flock


def test_mounts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from jprep.io.shared import file_systems

    home = tmp_path / "my home"
    home.mkdir()
    escaped = str(home).replace(" ", "\\040")
    lines = [
        "27 1 254:0 / / rw,relatime - ext4 /dev/vda rw",
        f"42 27 0:39 / {escaped} rw,relatime shared:7 - nfs4 server:/home rw,vers=4.2,local_lock=none",
    ]
    (tmp_path / "mountinfo").write_text("\n".join(lines))
    monkeypatch.setattr(file_systems, "_MOUNTS", tmp_path / "mountinfo")
    found = file_system_of(home / "new" / "corpus")
    assert (found.type, found.shared, describe_flock(found.flock)) == ("nfs4", True, "flock across hosts")
    assert file_system_of(tmp_path / "my home 2") == ("ext4", "local")


def test_what_is_detected_can_be_overridden(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOCKS_VARIABLE, "none")
    assert describe_flock(file_system_of(tmp_path).flock) == "lease only"


def test_a_listing_renews_what_is_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = Cache(monkeypatch, 1)
    cache.write_elsewhere(tmp_path / "note")
    assert not (tmp_path / "note").exists()
    assert exists_now(tmp_path / "note")
