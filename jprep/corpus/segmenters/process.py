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

_CHUNK = 1 << 16
_NAP = 0.02
"""Seconds between two reads, at most: a pipe of 64 kB takes the answers of a fast program for so long."""

_LIMIT = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
"""Limits the address space and becomes the program. A shell does it because nothing safe can run between fork and exec
of a process with threads. Where the kernel has no such limit (macOS) the program runs without."""


class Distrust(Exception):  # noqa: N818 - a verdict on an answer, not an error of ours
    """An answer that cannot be believed.

    Attributes:
        reason: one short word, e.g. `died`, `timeout`, `lines`, `changed`.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Child:
    """One running program.

    It is written to from one thread, read from another, its standard error is drained by a third: no pipe can fill up
    while somebody waits. It has a process group of its own, so that Ctrl-C reaches jprep alone and the work under way
    can be finished; if jprep dies its standard input ends, and it leaves.

    Args:
        command: the program's path and arguments.
        memory_mb: the most address space it may have, in MiB.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(self, command: Sequence[str], memory_mb: int) -> None:
        pipe = subprocess.PIPE
        limited = ["/bin/sh", "-c", _LIMIT, str(memory_mb << 10), *command]
        self._process = subprocess.Popen(limited, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._complaint, self._growth = b"", 1.0
        self._threads = [threading.Thread(target=self._drain, daemon=True)]
        self._threads[0].start()

    @property
    def pid(self) -> int:
        """The program's process id."""
        return self._process.pid

    @property
    def complaint(self) -> str:
        """The end of what it wrote to standard error; whole once the child was killed or closed."""
        return self._complaint.decode(errors="replace").strip()

    def ask(self, data: bytes, end: bytes, seconds: float, most: int) -> bytes:
        """Send bytes, and read until the answer ends.

        Args:
            data: what to send.
            end: the last lines of the answer, whole.
            seconds: how long to wait for it.
            most: the most bytes to accept.

        Raises:
            Distrust: it died, took too long, or answered too much. The child is of no further use: kill it.
        """
        writer = threading.Thread(target=self._write, args=(data,), daemon=True)
        self._threads[1:] = [writer]
        writer.start()
        answer = self._read(len(data), end, seconds, most)
        self._growth = len(answer) / len(data)
        writer.join()
        if self._process.poll() is not None:
            raise Distrust("died")
        return answer

    def _write(self, data: bytes) -> None:
        rest = memoryview(data)
        with contextlib.suppress(OSError):  # a dead reader: its silence says so to whoever waits for the answer
            while rest:
                rest = rest[os.write(self._stdin.fileno(), rest) :]

    def _read(self, size: int, end: bytes, seconds: float, most: int) -> bytes:
        answer, begun = bytearray(b"\n"), time.monotonic()  # so that a first line, too, begins after a newline
        with selectors.DefaultSelector() as ready:
            ready.register(self._stdout, selectors.EVENT_READ)
            while not answer.endswith(b"\n" + end):
                spent = time.monotonic() - begun
                left = seconds - spent
                if left <= 0 or not ready.select(left):
                    raise Distrust("timeout")
                chunk = os.read(self._stdout.fileno(), _CHUNK)
                if not chunk:
                    raise Distrust("died")
                answer += chunk
                if len(answer) > most:
                    raise Distrust("lines")
                time.sleep(_nap(size * self._growth - len(answer), spent / len(answer)))
        return bytes(answer[1:])

    def _drain(self) -> None:
        while chunk := os.read(self._stderr.fileno(), _CHUNK):
            self._complaint = (self._complaint + chunk)[-1000:]

    def kill(self) -> None:
        """End it now."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the group: the program may be a script's child
        self._process.wait()
        for thread in self._threads:
            thread.join()
        for stream in (self._stdin, self._stdout, self._stderr):
            stream.close()

    def close(self, seconds: float = 5.0) -> None:
        """End its input and let it leave; kill it if it stays."""
        self._stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()


def _nap(due: float, pace: float) -> float:
    """How long to let bytes gather: a program that flushes each line would else wake this thread for each.

    Args:
        due: bytes still to come, by the growth of the last answer.
        pace: seconds a byte, so far.
    """
    return min(max(due, 0.0) * pace / 2, _NAP)
