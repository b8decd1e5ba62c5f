"""Read a URL from any offset: http(s), `file://` or a plain path, with the same errors."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from http.client import HTTPException, HTTPResponse
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, TypeVar
from urllib.error import HTTPError
from urllib.parse import urlsplit
from urllib.request import Request, url2pathname, urlopen

import msgspec

from jprep.errors import ConfigError, InputError, MachineError

CHUNK = 1 << 18
RETRYABLE_STATUSES = {408, 425, 429, 500, 502, 503, 504}
MAX_PAUSE_S = 120.0

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """When to retry a failed download.

    Attributes:
        tries: failed attempts in a row, each without a new byte, after which to stop.
        pause_s: seconds before the second attempt; doubled before each further one, up to two minutes.
        timeout_s: seconds without a byte after which an attempt fails.
    """

    tries: int = 6
    pause_s: float = 2.0
    timeout_s: float = 60.0


class Unreachable(Exception):  # noqa: N818 - internal, never shown to users
    """The server did not respond, or the connection broke. Another attempt may succeed."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class NotOnServer(ConfigError):  # noqa: N818 - a kind of ConfigError
    """The server has no such file, or no longer has it."""


class _Body(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class RemoteContent(msgspec.Struct):
    """The content of a URL.

    Attributes:
        body: the bytes from `start` on.
        start: offset of the first byte: the requested one, or 0 if the server sends the file from its beginning.
        total: size of the whole file in bytes, -1 if unknown.
        validator: identifier of this version of the file (strong ETag, or Last-Modified), or "".
    """

    body: _Body
    start: int
    total: int
    validator: str

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they arrive, up to 256 KiB at a time.

        Raises:
            Unreachable: the connection broke.
        """
        while chunk := _reachable(lambda: self.body.read1(CHUNK)):
            yield chunk


@contextmanager
def open_url(
    url: str, *, start: int = 0, end: int = 0, validator: str = "", timeout_s: float
) -> Iterator[RemoteContent]:
    """Open a URL or path at byte `start`, or at byte 0 if its version is no longer `validator`.

    Args:
        url: http(s) or file URL, or a path.
        start: offset of the first byte.
        end: offset after the last byte to request, or 0 for the end of the file. The server may send more.
        validator: version of the file that the first `start` bytes belong to.
        timeout_s: seconds without a byte after which the attempt fails.

    Raises:
        Unreachable: the server did not respond; another attempt may succeed.
        ConfigError: the file does not exist, or access is denied.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https"):
        response = _request(url, start if validator else 0, validator, timeout_s, end)
        with closing(response):
            yield _to_content(response)
    elif scheme == "file" or "://" not in url:
        with _local(url).open("rb") as stream:
            status = _local(url).stat()
            state = f"{status.st_size}-{status.st_mtime_ns}"
            begin = stream.seek(start if validator == state else 0)
            yield RemoteContent(stream, begin, status.st_size, state)
    else:
        raise ConfigError(f"cannot fetch {scheme}:// URLs", where=url, fix="download the file with another tool")


def read_text(url: str, retry_policy: RetryPolicy, limit: int = 1 << 24) -> str:
    """Read a small text file, such as a list of checksums.

    Raises:
        InputError: the file is longer than `limit` bytes.
        MachineError: the server cannot be reached.
    """

    def attempt() -> str:
        gathered = bytearray()
        with open_url(url, timeout_s=retry_policy.timeout_s) as response:
            for chunk in response.chunks():
                gathered += chunk
                if len(gathered) > limit:
                    raise InputError("not a list of checksums: the file is too long", where=url)
        return gathered.decode("utf-8", "replace")

    return retry(attempt, url, retry_policy)


def retry(attempt: Callable[[], T], url: str, retry_policy: RetryPolicy, done: Callable[[], int] = lambda: 0) -> T:
    """Call a function until it does not raise `Unreachable`, with growing pauses.

    Args:
        attempt: the function.
        url: address to show in the error.
        retry_policy: number of attempts and pauses.
        done: returns the number of bytes so far. An attempt that adds bytes resets the count of failures.

    Raises:
        MachineError: too many attempts failed.
    """
    failures, before = 0, done()
    while True:
        try:
            return attempt()
        except Unreachable as error:
            failures = 1 if done() > before else failures + 1
            before = done()
            if failures >= retry_policy.tries:
                raise MachineError(
                    f"the download failed {failures} times in a row: {error}",
                    where=f"{url}, after {before:,} bytes",
                    fix="run the same command again to resume when the network works",
                ) from error
            time.sleep(min(max(error.wait_s, retry_policy.pause_s * 2 ** (failures - 1)), MAX_PAUSE_S))


def _request(url: str, start: int, validator: str, timeout_s: float, end: int = 0) -> HTTPResponse:
    headers = {"User-Agent": f"jprep/{version('jprep')}", "Accept-Encoding": "identity"}
    if start or end:
        headers["Range"] = f"bytes={start}-{end - 1 if end else ''}"
    if start:
        headers["If-Range"] = validator
    try:
        response: HTTPResponse = _reachable(lambda: urlopen(Request(url, headers=headers), timeout=timeout_s))
    except HTTPError as error:
        with closing(error):
            if error.code != 416 or not start:
                raise _refusal(url, error) from None
        return _request(url, 0, "", timeout_s)  # the downloaded bytes are longer than the file
    if start and response.status == 206 and (_first_byte(response) != start or _validator(response) != validator):
        response.close()
        return _request(url, 0, "", timeout_s)
    return response


def _reachable(call: Callable[[], T]) -> T:
    """Convert network errors of a call to `Unreachable`. Responses with an error status are raised unchanged."""
    try:
        return call()
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from error


def _refusal(url: str, error: HTTPError) -> Exception:
    if error.code in RETRYABLE_STATUSES:
        wait = error.headers.get("Retry-After", "")
        return Unreachable(f"HTTP {error.code} {error.reason}", float(wait) if wait.isdigit() else 0.0)
    if error.code in (404, 410):
        fix = "mirrors keep a dated dump for some months only: use another date, or `latest`, in the recipe's url"
        return NotOnServer(f"the file is not on the server (HTTP {error.code})", where=url, fix=fix)
    return ConfigError(
        f"the server denies access to the file (HTTP {error.code} {error.reason})",
        where=url,
        fix="check the recipe's url, or download the file by hand to the same folder",
    )


def _to_content(response: HTTPResponse) -> RemoteContent:
    start = _first_byte(response) if response.status == 206 else 0
    length = response.headers.get("Content-Length", "")
    return RemoteContent(response, start, start + int(length) if length.isdigit() else -1, _validator(response))


def _first_byte(response: HTTPResponse) -> int:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _validator(response: HTTPResponse) -> str:
    """Return a strong ETag, or Last-Modified. A weak ETag may stay when bytes change (RFC 9110, 13.1.5)."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def _local(url: str) -> Path:
    path = Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url)
    if not path.is_file():
        raise ConfigError("file not found", where=str(path), fix="correct the recipe's url")
    return path
