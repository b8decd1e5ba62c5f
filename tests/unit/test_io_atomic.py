"""Files are complete or do not exist, and only one process holds a lock."""

from __future__ import annotations

import errno
import hashlib
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from jprep.errors import JprepError, MachineError
from jprep.io.atomic import (
    TEMPORARY_MARK,
    atomic_path,
    file_sha256,
    final_name,
    remove_temporary_files,
    remove_tree,
    temporary_name,
    write_atomic,
)
from jprep.io.lock import hold_lock
from jprep.io.os_errors import write_error


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def test_a_file_appears_only_when_it_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "new" / "folder" / "file"
    with atomic_path(target) as temporary:
        temporary.write_bytes(b"half")
        assert temporary.parent == target.parent and TEMPORARY_MARK in temporary.name
        assert not target.exists()
        temporary.write_bytes(b"whole")
    assert target.read_bytes() == b"whole"
    assert file_sha256(target) == hashlib.sha256(b"whole").hexdigest()
    assert names(target.parent) == ["file"]


@pytest.mark.parametrize("fault", [ValueError, KeyboardInterrupt, SystemExit])
def test_after_an_exception_the_old_file_is_unchanged(fault: type[BaseException], tmp_path: Path) -> None:
    target = tmp_path / "file"
    write_atomic(target, b"old")
    with pytest.raises(fault), atomic_path(target) as temporary:
        temporary.write_bytes(b"half")
        raise fault
    assert target.read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize(
    ("number", "said"),
    [(errno.ENOSPC, "the disk is full"), (errno.EDQUOT, "the disk is full"), (errno.EACCES, "no permission to write"),
     (errno.EROFS, "no permission to write"), (errno.EIO, "cannot write: ")],
)  # fmt: skip
def test_a_failed_write_raises_an_error_with_a_fix(number: int, said: str, tmp_path: Path) -> None:
    error = write_error(OSError(number, os.strerror(number)), tmp_path / "file")
    assert said in error.what
    assert error.where == str(tmp_path / "file") and error.fix and error.exit_code == 3
    with pytest.raises(MachineError, match=said), atomic_path(tmp_path / "file"):
        raise OSError(number, os.strerror(number))


def test_a_folder_that_cannot_be_made(tmp_path: Path) -> None:
    tmp_path.joinpath("file").write_bytes(b"")
    with pytest.raises(MachineError), atomic_path(tmp_path / "file" / "below"):
        raise AssertionError("not reached")
    with pytest.raises(MachineError), hold_lock(tmp_path / "file" / "LOCK"):
        raise AssertionError("not reached")


def test_only_temporary_files_are_deleted(tmp_path: Path) -> None:
    below = tmp_path / "documents"
    below.mkdir()
    for name in (f"part{TEMPORARY_MARK}01234567", "part"):
        below.joinpath(name).write_bytes(b"")
    remove_temporary_files(tmp_path)
    assert names(below) == ["part"]
    remove_tree(tmp_path / "documents")
    remove_tree(tmp_path / "was never there")
    assert names(tmp_path) == []


def test_temporary_files_behind_a_link_are_kept(tmp_path: Path) -> None:
    theirs = tmp_path / "theirs" / f"part{TEMPORARY_MARK}1"
    theirs.parent.mkdir()
    theirs.write_bytes(b"")
    ours = tmp_path / "ours"
    ours.mkdir()
    (ours / "documents").symlink_to(theirs.parent)
    remove_temporary_files(ours)
    assert theirs.exists()


def test_temporary_names_are_unique_in_threads(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        drawn = list(pool.map(temporary_name, [tmp_path / "part"] * 2000))
    assert len(set(drawn)) == 2000
    assert {final_name(path.name) for path in drawn} == {"part"}
    assert final_name(f"part{TEMPORARY_MARK}1234") == "part"  # of earlier versions
    assert final_name("part") == final_name(f"part{TEMPORARY_MARK}") == final_name(f"part{TEMPORARY_MARK}x1") == ""


NAME = "from pathlib import Path; from jprep.io.atomic import temporary_name; print(temporary_name(Path('part')).name)"


def test_temporary_names_are_unique_among_processes_of_one_id() -> None:
    """As in containers that share a disk, where every process may be number 7."""
    code = f"import os; os.getpid = lambda: 7; {NAME}"
    drawn = [subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout for _ in range(3)]
    assert len(set(drawn)) == 3


def test_temporary_names_are_unique_after_a_fork() -> None:
    read, write = os.pipe()
    if not (child := os.fork()):
        os.write(write, temporary_name(Path("part")).name.encode())
        os._exit(0)
    os.waitpid(child, 0)
    assert (
        os.read(read, 100).decode().partition("-")[2][:20] != temporary_name(Path("part")).name.partition("-")[2][:20]
    )
    os.close(read)
    os.close(write)


def test_writers_of_one_file_do_not_meet(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with atomic_path(target) as first, atomic_path(target) as second:
        first.write_bytes(b"first")
        second.write_bytes(b"second")
        assert first != second
    assert target.read_bytes() == b"first" and names(tmp_path) == ["file"]


HOLD = """
import sys
from pathlib import Path
from jprep.io.lock import hold_lock
with hold_lock(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_lock_is_held_by_one_process_and_freed_by_its_death(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "LOCK"
    other = subprocess.Popen([sys.executable, "-c", HOLD, lock], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout and other.stdout.readline() == b"held\n"
    with pytest.raises(MachineError, match="another jprep is running here"), hold_lock(lock, timeout=0.1):
        raise AssertionError("not reached")
    other.kill()
    other.communicate()
    with hold_lock(lock, timeout=5), pytest.raises(JprepError), hold_lock(lock, timeout=0):
        raise AssertionError("not reached")
    with hold_lock(lock, timeout=0):
        assert lock.exists()


def test_a_lock_that_was_deleted_while_it_was_waited_for_is_made_again(tmp_path: Path) -> None:
    """Who waited would hold a file that nobody else sees."""
    lock = tmp_path / "folder" / "LOCK"
    held, done = threading.Event(), threading.Event()

    def wait() -> None:
        with hold_lock(lock, timeout=600):
            held.set()
            done.wait(600)

    waiting = threading.Thread(target=wait)
    with hold_lock(lock, keep=False):
        waiting.start()
        assert not held.wait(0.2)
    assert held.wait(600)
    with pytest.raises(MachineError, match="another jprep"), hold_lock(lock, timeout=0):
        raise AssertionError("not reached")
    done.set()
    waiting.join()
