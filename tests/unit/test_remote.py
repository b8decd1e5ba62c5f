"""Objects at URLs: written, read and compared; transient errors are retried, others are explained."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.corpus import input_files
from jprep.errors import ConfigError, DamagedError, JprepError, MachineError
from jprep.io.inputs.streams import open_raw
from jprep.io.remote import (
    check_writable,
    delete_object,
    download_file,
    download_folder,
    join_url,
    list_objects,
    read_bytes,
    retry_remote,
    upload_file,
    upload_folder,
    write_bytes,
)
from jprep.io.remote import retry as retry_module
from jprep.io.remote.errors import classify_error, translate_remote_error
from jprep.io.remote.folders import RECORD
from jprep.io.remote.ranges import ObjectFile

DATA = bytes(range(256)) * 100
SHA256 = hashlib.sha256(DATA).hexdigest()
URL = "memory://store/folder"


@pytest.fixture(autouse=True)
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Give the file system in memory, empty; retries do not wait."""
    monkeypatch.setattr(retry_module, "PAUSES", (0.0, 0.0, 0.0))
    files = fsspec.filesystem("memory")
    yield files
    files.store.clear()
    files.pseudo_dirs[:] = [""]


def sent(monkeypatch: pytest.MonkeyPatch, store: Any, failing: int = 0) -> list[str]:
    """Return a list to which the names of uploaded files are added; each n-th upload fails once."""
    names: list[str] = []
    real, calls = type(store).put_file, iter(range(1, 1000))

    def put_file(self: Any, path: str, target: str, **options: Any) -> None:
        if failing and not next(calls) % failing:
            raise ConnectionResetError("the connection broke")
        names.append(Path(path).name)
        real(self, path, target, **options)

    monkeypatch.setattr(type(store), "put_file", put_file)
    return names


def folder_of(path: Path, **files: bytes) -> dict[str, str]:
    path.mkdir()
    for name, data in files.items():
        (path / name).write_bytes(data)
    return {name: hashlib.sha256(data).hexdigest() for name, data in files.items() if name != "manifest"}


def test_objects_are_written_listed_read_and_deleted(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA)
    upload_file(tmp_path / "file", join_url(URL, "a", "b"), SHA256)
    write_bytes(b"small", join_url(URL + "/", "c"))
    assert list_objects(URL) == {"a/b": len(DATA), "c": 5}
    download_file(join_url(URL, "a", "b"), tmp_path / "back", SHA256)
    assert (tmp_path / "back").read_bytes() == DATA
    delete_object(join_url(URL, "c"))
    delete_object(join_url(URL, "c"))
    assert read_bytes(join_url(URL, "c")) is None and list_objects("memory://store/none") == {}


def test_the_check_for_writing_leaves_nothing(store: Any) -> None:
    check_writable(URL)
    assert not store.store


def test_a_file_with_another_hash_is_not_uploaded(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(DATA + b"x")
    with pytest.raises(DamagedError, match="was changed or damaged"):
        upload_file(tmp_path / "file", join_url(URL, "a"), SHA256)
    assert not list_objects(URL)


@pytest.mark.parametrize("content", [None, DATA[:-1] + b"x"])
def test_a_missing_or_damaged_object_is_named(content: bytes | None, tmp_path: Path) -> None:
    if content:
        write_bytes(content, join_url(URL, "a"))
    with pytest.raises(DamagedError) as raised:
        download_file(join_url(URL, "a"), tmp_path / "a", SHA256)
    assert raised.value.where == join_url(URL, "a") and not (tmp_path / "a").exists()


def test_a_file_that_cannot_be_written_is_no_error_of_the_store(tmp_path: Path) -> None:
    write_bytes(DATA, URL)
    with pytest.raises(MachineError) as refused:
        download_file(URL, tmp_path / ("n" * 300), SHA256)
    assert refused.value.where.startswith(str(tmp_path)) and "memory:" not in str(refused.value)


def test_an_interrupted_upload_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    files = folder_of(tmp_path / "out", one=b"1", two=b"22", three=b"333", manifest=b"{}")
    real = type(store).put_file

    def fails(self: Any, path: str, target: str, **options: Any) -> None:
        if path.endswith("three"):
            raise PermissionError("revoked")
        real(self, path, target, **options)

    monkeypatch.setattr(type(store), "put_file", fails)
    with pytest.raises(MachineError, match="no permission"):
        upload_folder(tmp_path / "out", URL, files, "manifest")
    assert "manifest" not in list_objects(URL)
    monkeypatch.setattr(type(store), "put_file", real)
    names = sent(monkeypatch, store)
    upload_folder(tmp_path / "out", URL, files, "manifest")
    assert set(names) <= {"two", "three", "manifest"} and names[-1] == "manifest" and "three" in names
    assert list(list_objects(URL)) == ["manifest", "one", "three", "two"]
    download_folder(URL, tmp_path / "back", files)
    assert {path.name: path.read_bytes() for path in (tmp_path / "back").iterdir()} == {
        "one": b"1", "two": b"22", "three": b"333",
    }  # fmt: skip


def test_a_replaced_folder_has_no_manifest_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Any
) -> None:
    before = folder_of(tmp_path / "old", same=b"s", gone=b"g", manifest=b"old")
    upload_folder(tmp_path / "old", URL, before, "manifest")
    after = folder_of(tmp_path / "new", same=b"s", added=b"a", manifest=b"new")
    seen: list[bool] = []
    monkeypatch.setattr(
        type(store), "put_file", _noting(type(store).put_file, lambda: seen.append("manifest" in list_objects(URL)))
    )
    upload_folder(tmp_path / "new", URL, after, "manifest", replaced=before)
    assert seen == [False, False]
    assert list(list_objects(URL)) == ["added", "manifest", "same"] and RECORD not in list_objects(URL)
    assert read_bytes(join_url(URL, "manifest")) == b"new"


def _noting(real: Any, note: Any) -> Any:
    def put_file(self: Any, path: str, target: str, **options: Any) -> None:
        note()
        real(self, path, target, **options)

    return put_file


def test_transient_errors_are_retried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store: Any) -> None:
    files = folder_of(tmp_path / "out", **{f"f{number}": bytes([number]) for number in range(9)})
    names = sent(monkeypatch, store, failing=3)
    upload_folder(tmp_path / "out", URL, files)
    assert sorted(names) == sorted(files)


@pytest.mark.parametrize(
    ("error", "tries", "kind", "what"),
    [
        (PermissionError("Access Denied"), 1, MachineError, "no permission to write in s3://b"),
        (FileNotFoundError("The specified bucket does not exist"), 1, ConfigError, "there is no bucket s3://b"),
        (ImportError("Install s3fs to access S3"), 1, MachineError, "needs another package"),
        (ValueError("Protocol not known: s4"), 1, ConfigError, "Protocol not known"),
        (ConnectionResetError("reset"), 4, MachineError, "cannot write s3://b: reset"),
        (TimeoutError(), 4, MachineError, "TimeoutError"),
    ],
)
def test_only_transient_errors_are_retried(error: Exception, tries: int, kind: type[JprepError], what: str) -> None:
    calls: list[int] = []

    def fails() -> None:
        calls.append(1)
        raise error

    with pytest.raises(kind, match=what) as raised:
        retry_remote(fails, "s3://b/x/y", "write")
    assert len(calls) == tries and raised.value.fix and raised.value.where == "s3://b/x/y"


@pytest.mark.parametrize(
    ("name", "module", "code", "problem"),
    [
        ("NoCredentialsError", "botocore.exceptions", None, "credentials"),
        ("DefaultCredentialsError", "google.auth.exceptions", None, "credentials"),
        ("HttpError", "gcsfs.retry", 401, "refused"),
        ("HttpError", "gcsfs.retry", 503, "transient"),
        ("HttpError", "gcsfs.retry", 400, "invalid"),
        ("EndpointConnectionError", "botocore.exceptions", None, "transient"),
        ("ClientPayloadError", "aiohttp.client_exceptions", None, "transient"),
        ("ConnectError", "httpx2", None, "transient"),
        ("Bug", "jprep.other", None, ""),
    ],
)
def test_errors_of_libraries_are_recognized(name: str, module: str, code: int | None, problem: str) -> None:
    error = type(name, (Exception,), {"__module__": module, "code": code})("why")
    assert classify_error(error) == problem
    assert bool(translate_remote_error(error, "gs://b/x", "read")) == bool(problem)


@pytest.mark.parametrize("url", ["http://a/b", "https://a/b", "file:///srv/x", "hf://datasets/a/b", "folder"])
def test_urls_that_cannot_be_written_to_are_refused(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_writable(url)
    assert raised.value.where == url and raised.value.fix


@given(st.binary(max_size=3000), st.lists(st.integers(1, 700), max_size=8))
def test_an_input_is_the_same_where_reads_fail(data: bytes, sizes: list[int]) -> None:
    files = fsspec.filesystem("memory")
    files.pipe_file("/store/input", data)
    with open_raw("memory://store/input") as opened:
        source = opened._source._file  # the wrapper that retries
        source._file = Flaky(source._file)
        parts = [opened.read(size) for size in sizes]
        assert b"".join([*parts, opened.read()]) == data


class Requested(io.BytesIO):
    """An object that notes the ranges that are requested; each third answer is too short."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self.size, self.ranges = len(data), list[tuple[int, int]]()

    def read(self, size: int | None = -1, /) -> bytes:
        begin, data = self.tell(), super().read(size)
        self.ranges.append((begin, len(data)))
        return data if len(self.ranges) % 3 else data[:-1]


def test_only_what_is_read_is_requested_and_more_in_sequence() -> None:
    data = os.urandom(40 << 20)
    file = ObjectFile(part := Requested(data), URL)
    file.seek(30 << 20)
    assert file.read(1000) == data[30 << 20 : (30 << 20) + 1000]
    assert sum(size for _, size in part.ranges) == 1 << 18
    file = ObjectFile(whole := Requested(data), URL)
    assert b"".join(iter(lambda: file.read(1 << 20), b"")) == data  # a read may give less than it asks for
    assert len(whole.ranges) < 20 and max(size for _, size in whole.ranges) == 8 << 20


def test_a_busy_store_gets_longer_pauses_and_the_user_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    answers = iter([OSError(16, "Please reduce your request rate. (SlowDown)")] * 6)

    def busy() -> str:
        for error in answers:
            raise error
        return "done"

    assert retry_remote(busy, "s3://b/x/y", "read") == "done"
    assert len(slept) == 6 and 15 <= slept[3] <= 45  # after four attempts with the pauses of any error
    assert "s3://b asks for fewer requests" in caplog.text and "SlowDown" in caplog.text


def test_an_object_is_hashed_again_only_if_its_store_calls_it_something_else(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    store.pipe_file("/store/x", b"one")
    versions = iter(["a", "a", "a", "b", "b", "", ""])
    monkeypatch.setattr(input_files, "object_version", lambda url: next(versions))
    known: dict[str, Any] = {}
    first = input_files.describe_input("memory://store/x", known)
    store.pipe_file("/store/x", b"two")
    assert input_files.describe_input("memory://store/x", known) == first
    assert input_files.describe_input("memory://store/x", known).sha256 == hashlib.sha256(b"two").hexdigest()
    assert len(known) == 2
    assert input_files.describe_input("memory://store/x", known).size == 3 and len(known) == 2


class Flaky:
    """A file of which every second read fails after it has moved."""

    def __init__(self, file: Any) -> None:
        self._file, self._reads = file, 0

    def read(self, size: int) -> bytes:
        self._reads += 1
        data = self._file.read(size)
        if self._reads % 2:
            raise OSError(5, os.strerror(5))
        return bytes(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
