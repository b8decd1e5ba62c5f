"""The inference client: starts a backend's inference server and exchanges messages with it."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import msgspec

from jprep.errors import JprepError, MachineError
from jprep.plugins import plugins
from jprep.train.inference.protocol import Request, Response
from jprep.train.launcher.environments import worker_command

_TAIL = 1500  # characters of a worker's last words that are shown
_PATIENCE = 10.0  # seconds that it has to leave


class InferenceClient:
    """A worker that has loaded an exported model.

        with Answering(folder, "torch") as worker:
            answer = worker.ask(FillMask(ids=ids, mask=4))

    Args:
        folder: the exported directory.
        backend: the backend's name.

    Raises:
        ConfigError: there is no such backend.
        MachineError: it is not installed.
    """

    def __init__(self, folder: Path, backend: str) -> None:
        found = plugins().get("backend", backend)()
        self._name, self._folder = backend, folder
        command = worker_command(found, None, "infer", folder)
        self._said = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said)

    def __enter__(self) -> InferenceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ask(self, request: Request) -> Response:
        """The answer to a request; it waits for it.

        Raises:
            MachineError: the worker has died, or could not load the model; with its last words.
            JprepError: what it says is no answer.
        """
        questions, answers = self._process.stdin, self._process.stdout
        assert questions and answers
        line = b""
        with contextlib.suppress(BrokenPipeError):
            questions.write(msgspec.json.encode(request) + b"\n")
            questions.flush()
            line = answers.readline()
        if not line.endswith(b"\n"):
            raise self._died()
        try:
            return msgspec.json.decode(line, type=Response)
        except ValueError as error:
            what = f"the worker of {self._name} gave no answer but {line[:80]!r}"
            raise JprepError(what, where=str(self._folder), fix="report it to the backend's makers") from error

    def close(self) -> None:
        """Have the worker leave."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._said.close()

    def _died(self) -> MachineError:
        code = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()[-_TAIL:]
        what = f"the worker of {self._name} ended with {code}: {said or 'it said nothing'}"
        return MachineError(what, where=str(self._folder), fix="mend what it says, then ask again")
