"""A morphological analyser that runs in a child process, with limits on memory and time, and without deadlocks."""

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
_MAX_PAUSE_S = 0.02
"""Maximum pause between two reads. A pipe of 64 kB can hold the answers of a fast program for that long."""

_LIMIT = 'ulimit -v "$0" 2>/dev/null; exec "$@"'
"""Limits the address space, then executes the program. A shell does this because no Python code may run between fork
and exec in a process with threads. On systems without this limit (macOS) the program runs without it."""


class InvalidAnswer(Exception):  # noqa: N818 - describes an answer, never shown to users
    """The answer of a program is missing or invalid.

    Attributes:
        reason: short code: `died`, `timeout`, `lines` (wrong number of lines), `changed` (not the same text).
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class AnalyzerProcess:
    """A running program.

    One thread writes to the program, the caller reads from it, and a third thread drains its standard error, so no pipe
    can fill up and block. The program runs in a process group of its own: Ctrl-C reaches jprep only, which can then
    finish its tasks. If jprep dies, the program's standard input ends and it exits.

    Args:
        command: path and arguments of the program.
        memory_mb: limit of the address space in MiB.
        growth: maximum length of an answer, as a multiple of the length of the input.

    Raises:
        OSError: the program cannot be started.
    """

    def __init__(self, command: Sequence[str], memory_mb: int, growth: int) -> None:
        pipe = subprocess.PIPE
        limited = ["/bin/sh", "-c", _LIMIT, str(memory_mb << 10), *command]
        self._process = subprocess.Popen(limited, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, process_group=0)
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._stdin, self._stdout, self._stderr = self._process.stdin, self._process.stdout, self._process.stderr
        self._ready = selectors.DefaultSelector()
        self._ready.register(self._stdout, selectors.EVENT_READ)
        self._growth, self._error_output = growth, b""
        self._sent = self._answered = self._received = 0
        self._rest = bytearray(b"\n")  # bytes read but not returned yet, after the newline before them
        self._outbox: SimpleQueue[bytes | None] = SimpleQueue()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._write, self._drain)]
        for thread in self._threads:
            thread.start()

    @property
    def pid(self) -> int:
        """Process id of the program."""
        return self._process.pid

    @property
    def error_output(self) -> str:
        """End of the standard error, as one line; complete after `kill` or `close`."""
        return " ".join(self._error_output.decode(errors="replace").split())

    def send(self, data: bytes) -> None:
        """Queue bytes to be written to the program."""
        self._sent += len(data)
        self._outbox.put(data)

    def receive(self, size: int, end: bytes, seconds: float) -> bytes:
        """Read the answer to the oldest unanswered input.

        Args:
            size: size of the input in bytes.
            end: last line or lines of the answer.
            seconds: timeout.

        Raises:
            InvalidAnswer: the program died, timed out or answered too much. Kill it afterwards.
        """
        stop = self._read_to(b"\n" + end, time.monotonic() + seconds)
        answer = bytes(self._rest[1:stop])
        del self._rest[: stop - 1]
        self._answered += size
        self._received += len(answer)
        return answer

    def kill(self) -> None:
        """Kill the program and its process group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)  # the group, since the program may be the child of a script
        self._process.wait()
        self._outbox.put(None)
        for thread in self._threads:
            thread.join()
        self._ready.close()
        self._stdout.close()
        self._stderr.close()

    def close(self, seconds: float = 5.0) -> None:
        """Close the program's input and wait for it to exit; kill it after `seconds`."""
        self._outbox.put(None)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self.kill()

    def _read_to(self, end: bytes, deadline: float) -> int:
        """Read until `end`, and return the offset after it."""
        begun, got, at = time.monotonic(), 0, self._rest.find(end)
        while at < 0:
            chunk = self._chunk(deadline - time.monotonic())
            self._rest += chunk
            got += len(chunk)
            if len(self._rest) > (self._sent - self._answered) * self._growth + _CHUNK:
                raise InvalidAnswer("lines")
            at = self._rest.find(end, max(len(self._rest) - len(chunk) - len(end), 0))
            if at < 0:
                time.sleep(self._pause((time.monotonic() - begun) / got))
        return at + len(end)

    def _chunk(self, seconds: float) -> bytes:
        if seconds <= 0 or not self._ready.select(seconds):
            raise InvalidAnswer("timeout")
        chunk = os.read(self._stdout.fileno(), _CHUNK)
        if not chunk:
            raise InvalidAnswer("died")
        return chunk

    def _pause(self, seconds_per_byte: float) -> float:
        """Return how long to wait for more bytes, since a program that flushes each line would wake this thread often.

        Args:
            seconds_per_byte: time that a byte of the answer has taken so far.
        """
        growth = self._received / self._answered if self._answered else 1.0
        due = (self._sent - self._answered) * growth - len(self._rest)
        return min(max(due, 0.0) * seconds_per_byte / 2, _MAX_PAUSE_S)

    def _write(self) -> None:
        for data in iter(self._outbox.get, None):
            rest = memoryview(data)
            with contextlib.suppress(OSError):  # the program has died, which `receive` reports
                while rest:
                    rest = rest[os.write(self._stdin.fileno(), rest) :]
        self._stdin.close()

    def _drain(self) -> None:
        while chunk := os.read(self._stderr.fileno(), _CHUNK):
            self._error_output = (self._error_output + chunk)[-500:]
