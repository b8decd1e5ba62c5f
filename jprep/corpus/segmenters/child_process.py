"""A child process that answers what it is sent: bounded in memory and time, and unable to deadlock its parent."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from queue import SimpleQueue

_CHUNK = 1 << 16
_NAP = 0.02
"""Seconds between two reads, at most: a pipe of 64 kB takes the answers of a fast program for so long."""

_LIMIT = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
"""Limits the address space and becomes the program. A shell does it because nothing safe can run between fork and exec
of a process with threads. Where the kernel has no such limit (macOS) the program runs without."""


class InvalidAnswer(Exception):  # noqa: N818 - a verdict on an answer, not an error of ours
    """An answer that cannot be believed.

    Attributes:
        reason: one short word, e.g. `died`, `timeout`, `lines`, `changed`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class ChildProcess:
    """One running program.

    One thread writes to it, its owner reads from it, a third drains its standard error: no pipe can fill up while
    somebody waits. It has a process group of its own, so that Ctrl-C reaches jprep alone and the work under way can be
    finished; if jprep dies its standard input ends, and it leaves.

    Args:
        command: the program's path and arguments.
        memory_mb: the most address space it may have, in MiB.
        growth: how many times as long as what it was sent its answers may be.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], memory_mb: int, growth: int) -> None:
        pipe = subprocess.PIPE
        limited = ["/bin/sh", "-c", _LIMIT, str(memory_mb << 10), *command]
        self._process = subprocess.Popen(limited, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._stdout, selectors.EVENT_READ)
        self._growth, self._complaint = growth, b""
        self._sent = self._answered = self._received = 0
        self._rest = bytearray(b"\n")  # what was read and not asked for yet, after the newline before it
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._drain)]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    @property
    def complaint(self) -> str:
        """The end of what it wrote to standard error, on one line; whole once the child was killed or closed."""
        return " ".join(self._complaint.decode(errors="replace").split())

    def send(self, data: bytes) -> None:
        """Have bytes written, without waiting for it."""
        self._sent += len(data)
        self._outbox.put(data)

    def receive(self, size: int, end: bytes, seconds: float) -> bytes:
        """Read the answer to the oldest of the bytes sent that were not answered yet.

        Args:
            size: how many bytes those are.
            end: the last lines of the answer, whole.
            seconds: how long to wait for it.

        Raises:
            Distrust: it died, took too long, or answered too much. The child is of no further use: kill it.
        """
        stop = self._read_to(b"\n" + end, time.monotonic() + seconds)
        answer = bytes(self._rest[1:stop])
        del self._rest[: stop - 1]
        self._answered += size
        self._received += len(answer)
        return answer

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the group: the program may be a script's child
        self._process.wait()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        self._ready.close()
        self._stdout.close()
        self._stderr.close()

    def close(self, seconds: float = 5.0) -> None:
        """End its input and let it leave; kill it if it stays."""
        self._outbox.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def _read_to(self, end: bytes, deadline: float) -> int:
        """Read until the end is there, and tell where it ends."""
        begun, got, at = time.monotonic(), 0, self._rest.find(end)
        while at < 0:
            chunk = self._chunk(deadline - time.monotonic())
            self._rest += chunk
            got += len(chunk)
            if len(self._rest) > (self._sent - self._answered) * self._growth + _CHUNK:
                raise InvalidAnswer("lines")
            at = self._rest.find(end, max(len(self._rest) - len(chunk) - len(end), 0))
            if at < 0:
                time.sleep(self._nap((time.monotonic() - begun) / got))
        return at + len(end)

    def _chunk(self, seconds: float) -> bytes:
        if seconds <= 0 or not self._ready.select(seconds):
            raise InvalidAnswer("timeout")
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        if not chunk:
            raise InvalidAnswer("died")
        return chunk

    def _nap(self, pace: float) -> float:
        """How long to let bytes gather: a program that flushes each line would else wake this thread for each.

        Args:
            pace: seconds that a byte takes to come.
        """
        growth = self._received / self._answered if self._answered else 1.0
        due = (self._sent - self._answered) * growth - len(self._rest)
        return min(max(due, 0.0) * pace / 2, _NAP)

    def _write(self) -> None:
        for data in iter(self._outbox.get, None):
            rest = memoryview(data)
            with contextlib.suppress(OSError):  # a dead reader: its silence says so to whoever waits for the answer
                while rest:
                    rest = rest[os.write(self._stdin.fileno(), rest) :]
        self._stdin.close()

    def _drain(self) -> None:
        while chunk := os.read(self._stderr.fileno(), _CHUNK):
            self._complaint = (self._complaint + chunk)[-500:]
