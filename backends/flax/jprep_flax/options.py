"""`[train.backend.flax]`."""

from __future__ import annotations

from typing import Literal

import msgspec

SECTION = "train.backend.flax"
"""The section of the options."""

JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
"""A device as the options name it → as JAX does."""


Device = Literal["cpu", "gpu", "tpu"]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.flax]`.

    The mesh has three axes, and their sizes multiplied are all devices of all processes.

    Attributes:
        device: `auto` takes GPUs where there are some, then TPUs.
        devices: of each process; 0 is all that this machine has, divided among its processes. On a CPU they are
            virtual, for trials.
        processes: how many; one drives all devices of a machine.
        coordinator: address and port of this machine, as the others reach it, where each process is on a machine of its
            own; all of them see the run directory under one path. "" is a run on this machine alone.
        data: the axis along which rows of a batch are divided and weights are not; 0 is what the others leave.
        fsdp: the axis along which rows are divided, and weights, gradients and optimizer too; 0 is 1, or all devices
            where they would not fit otherwise.
        tensor: the axis along which heads and the layers' inner widths are divided, and rows are not.
        rows: rows that go through the model at a time on each device, or on those of `tensor` together; 0 is as many as
            the estimate says will fit.
        recompute: keep each layer's input only, and compute the rest again on the way back: a third slower.
        deterministic: on GPUs, take kernels whose results do not depend on the order that threads come in.
        memory: GiB of each device: for TPUs, whose memory jprep cannot find out, and to plan for another machine; 0 is
            this machine's.
    """

    device: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    devices: int = 0
    processes: int = 1
    coordinator: str = ""
    data: int = 0
    fsdp: int = 0
    tensor: int = 1
    rows: int = 0
    recompute: bool = False
    deterministic: bool = True
    memory: float = 0.0
