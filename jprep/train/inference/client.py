"""The client of an inference server: a backend's worker that has loaded an exported model."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType

from jprep.json_process import JsonProcess
from jprep.train.backend_loading import load_backend
from jprep.train.inference.protocol import Request, Response
from jprep.train.launcher.environments import worker_command

_ON_CPU = {"CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1"}


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
        command = worker_command(load_backend(backend), None, "infer", folder)
        self._process = JsonProcess(command, f"the worker of {backend}", folder, _ON_CPU if on_cpu else {})

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
        return self._process.ask(request, Response)

    def close(self) -> None:
        """Stop the worker."""
        self._process.close()
