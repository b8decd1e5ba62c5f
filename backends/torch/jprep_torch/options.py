"""The options in `[train.backend.torch]`."""

from __future__ import annotations

from typing import Literal

from jprep.train.planning.machine import TpuMachineOptions

SECTION = "train.backend.torch"
"""The section of the recipe that holds the options."""

Device = Literal["cpu", "cuda", "xla", "tpu"]


class Options(TpuMachineOptions, frozen=True, kw_only=True):
    """`[train.backend.torch]`.

    Attributes:
        device: `auto` uses GPUs if there are some, else the CPU. `xla` uses TPUs through torch_xla, or XLA on the CPU
            if there are none; `tpu` uses TPUs through torch_tpu. `xla` and `tpu` have environments of their own.
        devices: number of `xla` devices on each host, which one process divides the batch among; 0 uses all of this
            machine. Without TPUs they are virtual, for trials.
        hosts: number of hosts of a TPU slice, one process each; together they run one program on all devices.
        processes: number of processes; 0 is one for each GPU or `tpu` device, and one on a CPU.
        micro_batch: rows that pass through the model at a time on each device; 0 is the most that is estimated to fit.
        shard: whether weights, gradients and optimizer state are sharded among the processes (FSDP2); `auto` shards
            models that do not fit otherwise. A single process shards nothing.
        compile: whether torch.compile compiles the model; the first steps then take tens of seconds.
        gradient_checkpointing: keep only the input of each layer and recompute the rest in the backward pass: a third
            slower.
        deterministic: on GPUs, use kernels whose results do not depend on the order of threads.
        threads: CPU threads of each process; 0 divides the cores among the processes.
        memory: GiB of each device, or of each process on a CPU: for TPUs, whose memory jprep cannot detect, and to plan
            for another machine; 0 is this machine's.
    """

    device: Literal["auto", "cpu", "cuda", "xla", "tpu"] = "auto"
    devices: int = 0
    hosts: int = 1
    processes: int = 0
    micro_batch: int = 0
    shard: Literal["auto", "yes", "no"] = "auto"
    compile: bool = False
    gradient_checkpointing: bool = False
    deterministic: bool = True
    threads: int = 0
    memory: float = 0.0
