"""Extract pages in a child process: no page can stop, crash or fill the memory of a build.

Extractors are written for pages as they are, and some markup takes them hours or gigabytes. `page` recognizes the kinds
that are known; this is for the others. Run as a module, this is the child's program.
"""

from __future__ import annotations

import contextlib
import functools
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import BinaryIO

import msgspec

from jprep.corpus.readers.web.page import Page, extract_page
from jprep.errors import MachineError

PAGE_SECONDS = 30
"""CPU time for one page. A page of a megabyte takes a tenth of a second."""

_MEMORY = 4 << 30
_SIZE = struct.Struct("<Q")


class PageExtractor:
    """Extracts pages in a child process, which is started for the first page, and again after it died or was closed.

    Threads can share it: they wait for each other.

    Args:
        extractor: see `extract_page`.
        seconds: CPU time for one page.
    """

    def __init__(self, extractor: str, seconds: int = PAGE_SECONDS) -> None:
        self._arguments = [extractor, str(seconds)]
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def extract(self, html: str) -> Page:
        """Return the page, see `extract_page`; with the fault `not_extracted` if the child dies of it.

        Raises:
            MachineError: the child does not start.
        """
        if not html:  # which would tell the child that there are no more pages
            return Page()
        with self._lock:
            answer, signal_number = self._ask(html)
            if not answer and signal_number != -signal.SIGXCPU:  # the child may have died of something else
                answer, _ = self._ask(html)
        return msgspec.msgpack.decode(answer, type=Page) if answer else Page(fault="not_extracted")

    def _ask(self, html: str) -> tuple[bytes, int]:
        """Return the child's answer, or b"" and its exit status."""
        child = self._child or self._start()
        assert child.stdin and child.stdout
        try:
            _send(child.stdin, html.encode("utf-8", "replace"))
            answer = _receive(child.stdout)
        except OSError:
            answer = b""
        except BaseException:  # such as Ctrl-C: the next page must not get this one's answer
            self.close()
            raise
        if not answer:
            self.close()
        return answer, child.returncode or 0

    def close(self) -> None:
        """End the child. The next page gets a new one."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                self._end(child)

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        assert child.stdin and child.stdout
        with contextlib.suppress(OSError):
            child.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(0.1)  # without input it ends by itself, and if it died, this tells why
        child.kill()
        child.wait()
        child.stdout.close()

    def _start(self) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        command = [sys.executable, "-P", "-m", __name__, *self._arguments]
        # A group of its own: Ctrl-C reaches jprep only, which can then finish its tasks.
        child = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0)
        assert child.stdout
        self._child = child
        if not _receive(child.stdout):
            self.close()
            fix = "run the command by hand to see its error"
            raise MachineError("the process that extracts pages does not start", where=" ".join(command), fix=fix)
        return child


@functools.cache
def shared_extractor(extractor: str) -> PageExtractor:
    """Return the one extractor of this process: all its sources share a child."""
    return PageExtractor(extractor)


def serve(requests: BinaryIO, answers: BinaryIO, extractor: str, seconds: int) -> None:
    """Answer pages until the input ends, each within limits of CPU time and memory."""
    _limit_memory()
    extract_page("<p>", extractor)  # load the libraries
    _send(answers, b"ready")
    while page := _receive(requests):
        _limit_time(seconds)
        _send(answers, msgspec.msgpack.encode(_extracted(page.decode(), extractor)))


def _extracted(html: str, extractor: str) -> Page:
    try:
        return extract_page(html, extractor)
    except MemoryError:  # earlier pages may have taken the memory: the child ends, and a new one is asked
        raise
    except Exception:  # extractors raise anything for broken markup
        return Page(fault="not_extracted")


def _limit_time(seconds: int) -> None:
    """Let the system kill this process if it uses more CPU time from now on."""
    import resource

    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    limit = int(time.process_time()) + 1 + seconds
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _limit_memory() -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):  # macOS has no such limit; there may be a lower one
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, hard))


def _send(stream: object, data: bytes) -> None:
    stream.write(_SIZE.pack(len(data)) + data)  # type: ignore[attr-defined]
    stream.flush()  # type: ignore[attr-defined]


def _receive(stream: object) -> bytes:
    """Return the next message, or b"" at the end of the stream, also if it ends within a message."""
    head = stream.read(_SIZE.size)  # type: ignore[attr-defined]
    if len(head) < _SIZE.size:
        return b""
    size = _SIZE.unpack(head)[0]
    data: bytes = stream.read(size)  # type: ignore[attr-defined]
    return data if len(data) == size else b""


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not become a reply
    serve(sys.stdin.buffer, replies, sys.argv[1], int(sys.argv[2]))
