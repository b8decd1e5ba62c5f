"""Traces of training steps by torch.profiler, or by torch_xla's profiler on its devices."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import torch

from jprep.train.worker.profiling import Tracer

TRACE = "trace.pt.trace.json.gz"
"""The name that TensorBoard's plugin for PyTorch looks for; Perfetto opens the file too."""

XLA_NOTE = "XLA runs a step as one program: the phase that first reads a result, the optimizer, waits for all of it."


class TorchTracer:
    """torch.profiler.

    Args:
        kind: `cpu`, `cuda` or `tpu`.
    """

    def __init__(self, kind: str) -> None:
        self._asynchronous = kind != "cpu"
        self._folder = Path()
        self._profile: Any = None

    def start(self, folder: Path) -> None:
        """Start recording operations of the host, and of GPUs."""
        self._folder = folder
        self._profile = torch.profiler.profile(activities=torch.profiler.supported_activities(), acc_events=True)
        self._profile.start()

    def stop(self) -> None:
        """Write the trace."""
        self._profile.stop()
        self._profile.export_chrome_trace(str(self._folder / TRACE))
        self._profile = None

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""
        mark: AbstractContextManager[object] = torch.profiler.record_function(name)
        return mark

    def wait(self) -> None:
        """Wait until the accelerator has computed what it was given."""
        if self._asynchronous:
            torch.accelerator.synchronize()

    def device_shares(self) -> Mapping[str, float]:
        """Return nothing: each phase is measured by itself."""
        return {}


class XlaTracer:
    """torch_xla's profiler, which writes a profile for TensorBoard's plugin `profile` (xprof)."""

    def start(self, folder: Path) -> None:
        """Start recording."""
        from torch_xla.debug import profiler

        profiler.start_trace(str(folder))

    def stop(self) -> None:
        """Write the trace."""
        from torch_xla.debug import profiler

        profiler.stop_trace()

    def annotate(self, name: str) -> AbstractContextManager[object]:
        """Return a context whose operations are marked with a name."""
        from torch_xla.debug.profiler import Trace

        mark: AbstractContextManager[object] = Trace(name)
        return mark

    def wait(self) -> None:
        """Wait until the devices have computed what they were given."""
        from torch_xla.core.xla_model import wait_device_ops

        wait_device_ops()

    def device_shares(self) -> Mapping[str, float]:
        """Return nothing: operations of a program do not name the phase that they are from."""
        return {}


def make_tracer(kind: str) -> Tracer:
    """Return the profiler for a device: `cpu`, `cuda`, `xla` or `tpu`."""
    return XlaTracer() if kind == "xla" else TorchTracer(kind)
