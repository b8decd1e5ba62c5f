"""Reading a URL from any byte on: http(s), `file://` and plain paths give the same answer and the same few errors."""

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
TEMPORARY = {408, 425, 429, 500, 502, 503, 504}
LONGEST_PAUSE_S = 120.0

T = TypeVar("T")


class RetryPolicy(msgspec.Struct, frozen=True):
    """How long to go on with a server that fails.

    Attributes:
        tries: attempts in a row that bring not one byte, before giving up.
        pause_s: seconds before the second attempt; doubled before each further one, up to two minutes.
        timeout_s: seconds without a byte after which an attempt has failed.
    """

    tries: int = 6
    pause_s: float = 2.0
    timeout_s: float = 60.0


class Unreachable(Exception):  # noqa: N818 - a state of the other side, never shown to a user as it is
    """The other side did not answer, or stopped in the middle: another attempt may help."""

    def __init__(self, reason: str, wait_s: float = 0.0) -> None:
        super().__init__(reason)
        self.wait_s = wait_s


class _Body(Protocol):
    def read1(self, size: int, /) -> bytes: ...


class Answer(msgspec.Struct):
    """What a URL gave.

    Attributes:
        body: the bytes from `start` on.
        start: the first byte's offset in the file: what was asked for, or 0 where the other side began anew.
        total: bytes of the whole file, -1 if not told.
        validator: what tells this state of the file from any other (strong ETag, or Last-Modified), "" if nothing does.
    """

    body: _Body
    start: int
    total: int
    validator: str

    def chunks(self) -> Iterator[bytes]:
        """The bytes as they come in, up to 256 KiB at a time.

        Raises:
            Unreachable: the connection broke.
        """
        while chunk := _reachable(lambda: self.body.read1(CHUNK)):
            yield chunk


@contextmanager
def ask(url: str, *, start: int = 0, end: int = 0, validator: str = "", timeout_s: float) -> Iterator[Answer]:
    """Open a URL or path from byte `start` on, if it is still in the state that `validator` names; else from byte 0.

    With `end`, a server is asked for no byte from there on; it may send more.

    Raises:
        Unreachable: another attempt may help.
        ConfigError: none will: there is no such file, or it is refused.
    """
    scheme = urlsplit(url).scheme
    if scheme in ("http", "https"):
        response = _request(url, start if validator else 0, validator, timeout_s, end)
        with closing(response):
            yield _answer(response)
    elif scheme == "file" or "://" not in url:
        with _local(url).open("rb") as stream:
            status = _local(url).stat()
            state = f"{status.st_size}-{status.st_mtime_ns}"
            begin = stream.seek(start if validator == state else 0)
            yield Answer(stream, begin, status.st_size, state)
    else:
        raise ConfigError(f"{scheme}:// cannot be fetched", where=url, fix="fetch it with that service's own tool")


def read_text(url: str, patience: RetryPolicy, limit: int = 1 << 24) -> str:
    """Read a small text file, such as a list of checksums.

    Raises:
        InputError: it is longer than `limit` bytes.
        MachineError: it cannot be reached.
    """

    def attempt() -> str:
        gathered = bytearray()
        with ask(url, timeout_s=patience.timeout_s) as answer:
            for chunk in answer.chunks():
                gathered += chunk
                if len(gathered) > limit:
                    raise InputError("this is no list of checksums: it is too long", where=url)
        return gathered.decode("utf-8", "replace")

    return persist(attempt, url, patience)


def persist(attempt: Callable[[], T], url: str, patience: RetryPolicy, done: Callable[[], int] = lambda: 0) -> T:
    """Repeat an attempt while the other side is unreachable, with growing pauses.

    Args:
        attempt: what to do.
        url: for the error.
        patience: how often and how long.
        done: bytes there are so far; an attempt that added to them starts the count of failures again.

    Raises:
        MachineError: patience is at its end.
    """
    failures, before = 0, done()
    while True:
        try:
            return attempt()
        except Unreachable as error:
            failures = 1 if done() > before else failures + 1
            before = done()
            if failures >= patience.tries:
                raise MachineError(
                    f"the download failed {failures} times in a row: {error}",
                    where=f"{url}, after {before:,} bytes",
                    fix="run the same command again when the network is back: it goes on where it stopped",
                ) from error
            time.sleep(min(max(error.wait_s, patience.pause_s * 2 ** (failures - 1)), LONGEST_PAUSE_S))


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
        return _request(url, 0, "", timeout_s)  # what is on the disk is no beginning of the file
    if start and response.status == 206 and (_first_byte(response) != start or _validator(response) != validator):
        response.close()
        return _request(url, 0, "", timeout_s)
    return response


def _reachable(call: Callable[[], T]) -> T:
    """Turn what the network does to a call into `Unreachable`; an answer with an error status stays what it is."""
    try:
        return call()
    except HTTPError:
        raise
    except (OSError, HTTPException) as error:
        raise Unreachable(str(error) or type(error).__name__) from error


def _refusal(url: str, error: HTTPError) -> Exception:
    if error.code in TEMPORARY:
        wait = error.headers.get("Retry-After", "")
        return Unreachable(f"HTTP {error.code} {error.reason}", float(wait) if wait.isdigit() else 0.0)
    if error.code in (404, 410):
        fix = "a mirror keeps a dated dump for some months only: put another date, or `latest`, into the recipe's url"
        return ConfigError(f"the file is not on the server (HTTP {error.code})", where=url, fix=fix)
    return ConfigError(
        f"the server refuses the file (HTTP {error.code} {error.reason})",
        where=url,
        fix="check the recipe's url, or download the file by hand into the same folder",
    )


def _answer(response: HTTPResponse) -> Answer:
    start = _first_byte(response) if response.status == 206 else 0
    length = response.headers.get("Content-Length", "")
    return Answer(response, start, start + int(length) if length.isdigit() else -1, _validator(response))


def _first_byte(response: HTTPResponse) -> int:
    found = re.match(r"bytes (\d+)-", response.headers.get("Content-Range", ""))
    return int(found[1]) if found else -1


def _validator(response: HTTPResponse) -> str:
    """A weak ETag may stay while bytes change (RFC 9110, 13.1.5): it cannot guard a resumed download."""
    tag = response.headers.get("ETag", "")
    return tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")


def _local(url: str) -> Path:
    path = Path(url2pathname(urlsplit(url).path) if url.startswith("file:") else url)
    if not path.is_file():
        raise ConfigError("there is no such file", where=str(path), fix="correct the recipe's url")
    return path
