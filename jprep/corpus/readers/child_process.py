"""Run native libraries in a child process: no file can stop, crash or fill the memory of a build.

Libraries for pages and PDFs are native code, and some files take them hours or gigabytes. The child has limits of CPU
time for each request and of memory; the system ends it when it exceeds them, and the next request gets a new one.
"""

from __future__ import annotations

import contextlib
import os
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import IO

from jprep.errors import MachineError

_MEMORY = 4 << 30
_SIZE = struct.Struct("<Q")


class ChildProcess:
    """A child process, which is started for the first request, and again after it died or was closed.

    Threads can share it: they wait for each other.

    Args:
        module: its program, which calls `serve`.
        arguments: the program's arguments.
        work: what it does, for messages.
    """

    def __init__(self, module: str, arguments: list[str], work: str) -> None:
        self._command = [sys.executable, "-P", "-m", module, *arguments]
        self._work = work
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.RLock()

    def ask(self, request: bytes) -> bytes:
        """Return the child's answer to a request that is not empty; b"" if the child dies of it.

        Raises:
            MachineError: the child does not start.
        """
        with self._lock:
            answer, signal_number = self._ask(request)
            if not answer and signal_number != -signal.SIGXCPU:  # the child may have died of something else
                answer, _ = self._ask(request)
        return answer

    def close(self) -> None:
        """End the child. The next request gets a new one."""
        with self._lock:
            child, self._child = self._child, None
            if child is not None:
                self._end(child)

    def _ask(self, request: bytes) -> tuple[bytes, int]:
        """Return the child's answer, or b"" and its exit status."""
        child = self._child or self._start()
        assert child.stdin and child.stdout
        try:
            _send(child.stdin, request)
            answer = _receive(child.stdout)
        except OSError:
            answer = b""
        except BaseException:  # such as Ctrl-C: the next request must not get this one's answer
            self.close()
            raise
        if not answer:
            self.close()
        return answer, child.returncode or 0

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
        # A group of its own: Ctrl-C reaches jprep only, which can then finish its tasks.
        child = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, process_group=0)
        assert child.stdout
        self._child = child
        if not _receive(child.stdout):
            self.close()
            what, fix = f"the process that {self._work} does not start", "run the command by hand to see its error"
            raise MachineError(what, where=" ".join(self._command), fix=fix)
        return child


def serve(prepare: Callable[[], object], answer: Callable[[bytes], bytes], seconds: int) -> None:
    """Be the child: answer the requests of standard input until it ends, each within limits of CPU time and memory.

    Args:
        prepare: loads the libraries.
        answer: returns the answer to a request, which is not empty.
        seconds: CPU time for a request.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a library prints must not become a reply
    _limit_memory()
    prepare()
    _send(replies, b"ready")
    while request := _receive(sys.stdin.buffer):
        _limit_time(seconds)
        _send(replies, answer(request))


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


def _send(stream: IO[bytes], data: bytes) -> None:
    stream.write(_SIZE.pack(len(data)) + data)
    stream.flush()


def _receive(stream: IO[bytes]) -> bytes:
    """Return the next message, or b"" at the end of the stream, also if it ends within a message."""
    head = stream.read(_SIZE.size)
    if len(head) < _SIZE.size:
        return b""
    size = _SIZE.unpack(head)[0]
    data = stream.read(size)
    return data if len(data) == size else b""
