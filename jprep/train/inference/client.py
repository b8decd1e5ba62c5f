"""The client of an inference server: a backend's worker that has loaded an exported model."""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import msgspec

from jprep.errors import JprepError, MachineError
from jprep.train.backend_loading import load_backend
from jprep.train.inference.protocol import Request, Response
from jprep.train.launcher.environments import worker_command
from jprep.typed_json import decode_json

_TAIL = 1500  # characters of the worker's stderr to show
_ON_CPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}
_CLOSE_TIMEOUT = 10.0  # seconds


class InferenceClient:
    """Starts a worker that serves an exported model, and sends it requests.

        with InferenceClient(folder, "torch") as client:
            response = client.send(FillMask(ids=ids, mask=4))

    Args:
        folder: the exported directory.
        backend: the backend's name.
        on_cpu: whether to use one CPU core only, beside a training.

    Raises:
        ConfigError: there is no such backend.
        MachineError: it is not installed.
    """

    def __init__(self, folder: Path, backend: str, *, on_cpu: bool = False) -> None:
        self._name, self._folder = backend, folder
        command = worker_command(load_backend(backend), None, "infer", folder)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - `close` closes it
        environment = os.environ | _ON_CPU if on_cpu else None
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr, env=environment
        )

    def __enter__(self) -> InferenceClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def send(self, request: Request) -> Response:
        """Send a request, and wait for the response.

        Raises:
            MachineError: the worker died, or could not load the model; the message ends with its stderr.
            JprepError: the worker wrote something that is not a response.
        """
        requests, responses = self._process.stdin, self._process.stdout
        assert requests and responses
        line = b""
        with contextlib.suppress(BrokenPipeError):
            requests.write(msgspec.json.encode(request) + b"\n")
            requests.flush()
            line = responses.readline()
        if not line.endswith(b"\n"):
            raise self._death()
        try:
            return decode_json(line, Response)
        except ValueError as error:
            what = f"the worker of {self._name} sent an invalid response: {line[:80]!r}"
            raise JprepError(what, where=str(self._folder), fix="report it to the backend's authors") from error

    def close(self) -> None:
        """Stop the worker."""
        with contextlib.suppress(BrokenPipeError):
            if self._process.stdin:
                self._process.stdin.close()
        try:
            self._process.wait(_CLOSE_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._stderr.close()

    def _death(self) -> MachineError:
        """Return the error of a worker that died."""
        code = self._process.wait()
        self._stderr.seek(0)
        stderr = self._stderr.read().decode(errors="replace").strip()[-_TAIL:]
        what = f"the worker of {self._name} exited with code {code}: {stderr or 'its stderr is empty'}"
        return MachineError(what, where=str(self._folder), fix="fix what it reports, then try again")
