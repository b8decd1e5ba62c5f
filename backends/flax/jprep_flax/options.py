"""The options in `[train.backend.flax]`."""

from __future__ import annotations

from typing import Literal

from jprep.train.planning.machine import TpuMachineOptions

SECTION = "train.backend.flax"
"""The section of the options, for error messages."""

JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
"""A device in the options → JAX's name of it."""


Device = Literal["cpu", "gpu", "tpu"]


class Options(TpuMachineOptions, frozen=True, kw_only=True):
    """`[train.backend.flax]`.

    The mesh has three axes, whose sizes multiply to the number of devices of all processes.

    Attributes:
        device: `auto` uses GPUs if there are any, else TPUs, else the CPU.
        devices: devices of each process; 0 divides those of this machine among its processes. On a CPU they are
            virtual, for trials.
        processes: number of processes, of each host with `train.hosts`; one drives all devices of a machine.
        coordinator: address and port of this machine, as the others reach it, if each process runs on a machine of its
            own that you start by hand; all of them see the run directory under one path. `train.hosts` needs none.
        data: axis along which the rows of a batch are sharded and weights are not; 0 uses what the other axes leave.
        fsdp: axis along which rows are sharded, and weights, gradients and optimizer, too; 0 is 1, or all devices if
            they would not fit otherwise.
        tensor: axis along which attention heads and inner widths are sharded, and rows are not.
        micro_batch: rows that go through the model at a time on each device, or on those of `tensor` together;
            gradients are accumulated over a batch. 0 uses as many as fit into memory by the estimate.
        gradient_checkpointing: keep the input of each layer only, and recompute the rest in the backward pass: less
            memory, and a third slower.
        deterministic: use kernels on GPUs whose results do not depend on the order of threads.
        memory: GiB of each device: for TPUs, whose memory jprep cannot detect, and to plan for another machine; 0
            detects it.
    """

    device: Literal["auto", "cpu", "gpu", "tpu"] = "auto"
    devices: int = 0
    processes: int = 1
    coordinator: str = ""
    data: int = 0
    fsdp: int = 0
    tensor: int = 1
    micro_batch: int = 0
    gradient_checkpointing: bool = False
    deterministic: bool = True
    memory: float = 0.0
