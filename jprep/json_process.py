"""A child process that answers each line of JSON with one, in the same order."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TypeVar

import msgspec

from jprep.errors import JprepError, MachineError
from jprep.typed_json import decode_json

Answer = TypeVar("Answer")

_TAIL = 1500  # characters of the process's stderr to show
_CLOSE_TIMEOUT = 10.0  # seconds


class JsonProcess:
    """A running program. Threads can share it: they wait for each other. It is stopped when this object is deleted.

    Args:
        command: the program and its arguments.
        name: what it is, for messages: `the tokenizer process`.
        where: the path that messages name.
        environment: variables besides those of this process.
    """

    def __init__(self, command: Sequence[str], name: str, where: Path, environment: Mapping[str, str] = {}) -> None:
        self._name, self._where, self._lock = name, where, threading.Lock()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        pipe, variables = subprocess.PIPE, {**os.environ, **environment}
        self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self._stderr, env=variables)
        self.close = weakref.finalize(self, _stop, self._process, self._stderr)
        """Stops the program. It can be called repeatedly."""

    def ask(self, request: msgspec.Struct, kind: type[Answer]) -> Answer:
        """Send a request, and wait for the answer.

        Args:
            request: the request.
            kind: the type of the answer.

        Raises:
            MachineError: the process died; the message ends with its stderr.
            JprepError: it wrote something else.
        """
        with self._lock:
            try:
                self._send(request)
                return self.read(kind)
            except Exception:
                raise
            except BaseException:  # such as Ctrl-C: the next request must not get this one's answer
                self.close()
                raise

    def read(self, kind: type[Answer]) -> Answer:
        """Return a line that the process writes without being asked; see `ask`."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._death()
        try:
            return decode_json(line, kind)
        except ValueError as error:
            what, fix = f"{self._name} wrote an invalid answer: {line[:80]!r}", "report it to its authors"
            raise JprepError(what, where=str(self._where), fix=fix) from error

    def _send(self, request: msgspec.Struct) -> None:
        if not self.close.alive:
            raise MachineError(f"{self._name} was stopped", where=str(self._where), fix="load it again")
        assert self._process.stdin
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._death() from None

    def _death(self) -> MachineError:
        code = _wait(self._process)
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace").strip()[-_TAIL:]
        what = f"{self._name} exited with code {code}: {stderr or 'its stderr is empty'}"
        return MachineError(what, where=str(self._where), fix="fix what it reports, then try again")


def _stop(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    """Let a process end at the end of its input, or kill it."""
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            if stream:
                stream.close()
    _wait(process)
    stderr.close()


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process that is about to end; kill it if it does not."""
    try:
        return process.wait(_CLOSE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
