"""Which modules wait for the device: on a CPU nothing waits, but the operations are the same."""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

WAITING = {
    torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default,
}  # fmt: skip
"""Operations that wait for a GPU: they read a number, or return as many as they find."""


class DeviceReads(TorchDispatchMode):
    """Collects the operations that wait for the device.

    Attributes:
        callers: the first module outside of PyTorch that called each of them.
    """

    def __init__(self) -> None:
        super().__init__()
        self.callers: list[str] = []

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if function in WAITING:
            self.callers.append(_caller())
        return function(*args, **(kwargs or {}))


def _caller() -> str:
    frame = sys._getframe(2)
    while frame.f_back and frame.f_globals["__name__"].split(".")[0] == "torch":
        frame = frame.f_back
    return str(frame.f_globals["__name__"])
