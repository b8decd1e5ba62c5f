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
        with self._lock, contextlib.suppress(BrokenPipeError):
            assert self._process.stdin
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            self._process.stdin.flush()
            return self.read(kind)
        raise self._death()

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

    def _death(self) -> MachineError:
        code = self._process.wait()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace").strip()[-_TAIL:]
        what = f"{self._name} exited with code {code}: {stderr or 'its stderr is empty'}"
        return MachineError(what, where=str(self._where), fix="fix what it reports, then try again")


def _stop(process: subprocess.Popen[bytes], stderr: IO[bytes]) -> None:
    """Let a process end at the end of its input, or kill it."""
    with contextlib.suppress(OSError):
        if process.stdin:
            process.stdin.close()
    try:
        process.wait(_CLOSE_TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout:
        process.stdout.close()
    stderr.close()
