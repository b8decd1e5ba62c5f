"""Read, write, list and delete single objects at URLs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from jprep.errors import ConfigError, DamagedError
from jprep.io.atomic import atomic_path, file_sha256
from jprep.io.remote.errors import Access, is_missing_bucket
from jprep.io.remote.ranges import ObjectFile
from jprep.io.remote.retry import retry_remote
from jprep.io.verified_files import verify_file

T = TypeVar("T")

_VERSIONS = ("ETag", "etag", "VersionId", "generation", "blob_id", "xet_hash")
_PASSWORD = re.compile(r"://[^/]*:[^/]*@")
_DOWNLOADS = 2  # times that an object with a wrong hash is read before it counts as damaged
_READ_ONLY = {
    "http": "use a URL such as s3://BUCKET/FOLDER",
    "file": "give the path without file://",
    "hf": "use `jprep push PATH --to NAME`",
}
_READ_ONLY |= {"https": _READ_ONLY["http"], "local": _READ_ONLY["file"]}


def is_url(text: str) -> bool:
    """Return whether a text is a URL, not a path."""
    return "://" in text


def has_password(url: str) -> bool:
    """Return whether a URL has a password: `scheme://user:password@host`."""
    return _PASSWORD.search(url) is not None


def join_url(url: str, *names: str) -> str:
    """Return the URL of an object below another URL."""
    return "/".join([url.rstrip("/"), *names])


def open_filesystem(url: str) -> tuple[Any, str]:
    """Return the fsspec file system of a URL, and the path inside it.

    Raises:
        ConfigError: the URL is not valid.
        MachineError: its kind needs a package that is not installed, or there are no credentials.
    """
    import fsspec

    files, inside = retry_remote(lambda: fsspec.core.url_to_fs(url), url, "read")
    return files, str(inside)


def open_object(url: str) -> ObjectFile:
    """Open an object for reading; it is requested in ranges, and failed requests are retried.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """
    files, inside = open_filesystem(url)
    return ObjectFile(retry_remote(lambda: files.open(inside, "rb", cache_type="none"), url, "read"), url)


def object_version(url: str) -> str:
    """Return what a store calls the content of an object now: its ETag, generation or hash; "" if it does not say.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """
    info = _call(url, "read", lambda files, inside: files.info(inside))
    told = [f"{name}={info[name]}" for name in _VERSIONS if info.get(name)]
    return "" if any("=W/" in each for each in told) else " ".join(told)  # an ETag that begins so is not exact


def check_writable(url: str) -> None:
    """Check that objects can be written and deleted below a URL, with a small object.

    Raises:
        ConfigError: there is no such bucket, or nothing can be written to this kind of URL.
        MachineError: no credentials or rights, or the store cannot be reached.
    """
    refuse_read_only(url)
    probe = join_url(url, f".jprep-probe-{os.urandom(8).hex()}")
    write_bytes(b"jprep checks that it can write here.\n", probe)
    delete_object(probe)


def refuse_read_only(url: str) -> None:
    """Raise ConfigError for a text that is no URL of a store that objects can be written to."""
    if not is_url(url):
        raise ConfigError("expected a URL", where=url, fix="use a URL such as s3://BUCKET/FOLDER")
    if fix := _READ_ONLY.get(url.partition("://")[0].lower()):
        raise ConfigError("jprep cannot write to a URL of this kind", where=url, fix=fix)


def write_bytes(data: bytes, url: str) -> None:
    """Write a small object, or replace it.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """
    _call(url, "write", lambda files, inside: files.pipe_file(inside, data))


def read_bytes(url: str) -> bytes | None:
    """Read a small object; return None if it does not exist.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """

    def read(files: Any, inside: str) -> bytes | None:
        try:
            data: bytes = files.cat_file(inside)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            return None
        return data

    return _call(url, "read", read)


def upload_file(path: Path, url: str, sha256: str = "") -> None:
    """Write a file as an object, or replace it.

    Args:
        path: the file.
        url: the object.
        sha256: the hash that the file must have; "" does not check it.

    Raises:
        DamagedError: the file is missing, or has another hash.
        ConfigError, MachineError: see `retry_remote`.
    """
    if sha256:
        verify_file(path, sha256, "restore the file")
    size = path.stat().st_size

    def put(files: Any, inside: str) -> None:
        files.put_file(str(path), inside)
        files.invalidate_cache()
        if (found := files.info(inside)["size"]) != size:
            raise OSError(f"{size} bytes were written, and {found} arrived")

    _call(url, "write", put)


def download_file(url: str, path: Path, sha256: str = "") -> None:
    """Read an object into a file, atomically.

    Args:
        url: the object.
        path: the file.
        sha256: the hash that it must have; "" does not check it.

    Raises:
        DamagedError: the object is missing, or has another hash, twice.
        ConfigError, MachineError: see `retry_remote`; or the disk is full or not writable.
    """
    with atomic_path(path) as temporary:
        temporary.touch()  # errors of the disk are not those of the store
        for _ in range(_DOWNLOADS):
            if not _call(url, "read", lambda files, inside: _get(files, inside, temporary)):
                raise DamagedError("this object is missing", where=url, fix="upload it again")
            if not sha256 or file_sha256(temporary) == sha256:
                return
        raise DamagedError("this object was changed or damaged", where=url, fix="upload it again")


def _get(files: Any, inside: str, path: Path) -> bool:
    """Read an object into a file; return False if it does not exist."""
    try:
        files.get_file(inside, str(path))
    except FileNotFoundError as error:
        if is_missing_bucket(error):
            raise
        return False
    return True


def list_objects(url: str) -> dict[str, int]:
    """Return the size of each object below a URL, by its name relative to it.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """

    def find(files: Any, inside: str) -> dict[str, int]:
        below = inside.rstrip("/") + "/"
        try:
            found = files.find(inside, detail=True)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise
            return {}
        named = {name.removeprefix(below): one for name, one in found.items() if name.startswith(below)}
        return {name: int(one["size"] or 0) for name, one in sorted(named.items())}

    return _call(url, "read", find)


def delete_object(url: str) -> None:
    """Delete an object, if it exists.

    Raises:
        ConfigError, MachineError: see `retry_remote`.
    """

    def delete(files: Any, inside: str) -> None:
        try:
            files.rm_file(inside)
        except FileNotFoundError as error:
            if is_missing_bucket(error):
                raise

    _call(url, "write", delete)


def _call(url: str, access: Access, function: Callable[[Any, str], T]) -> T:
    files, inside = open_filesystem(url)

    def call() -> T:
        files.invalidate_cache()  # it would hide what other processes have written since the last listing
        return function(files, inside)

    return retry_remote(call, url, access)
