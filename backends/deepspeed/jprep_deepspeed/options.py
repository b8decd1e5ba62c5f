"""The options in `[train.backend.deepspeed]`."""

from __future__ import annotations

from typing import Literal

from jprep.train.planning.machine import MachineOptions

SECTION = "train.backend.deepspeed"
"""The section of the recipe that holds the options."""

Device = Literal["cpu", "cuda"]
Offload = Literal["none", "cpu", "nvme"]


class Options(MachineOptions, frozen=True, kw_only=True):
    """`[train.backend.deepspeed]`.

    Attributes:
        device: `auto` uses GPUs if there are some, else the CPU.
        processes: number of processes on each host; 0 is one for each GPU, and one on a CPU.
        micro_batch: rows that pass through the model at a time on each device; 0 is the most that is estimated to fit.
        stage: ZeRO stage. 1 shards the optimizer state among the processes, 2 gradients too, 3 weights too; `auto` is
            the smallest stage that fits.
        offload_optimizer: where the optimizer state is kept: `none` on the device, `cpu` in main memory; in stage 3
            also `nvme`, in files below `nvme_path`; `auto` is what `ds_config` says, or `none`.
        offload_param: where stage 3 keeps weights: `auto`, `none` or `cpu`, as above.
        nvme_path: the absolute path of a directory on a fast local disk of each host, for `nvme`.
        gradient_checkpointing: keep only the input of each layer and recompute the rest in the backward pass: a third
            slower.
        deterministic: on GPUs, use kernels whose results do not depend on the order of threads.
        threads: CPU threads of each process; 0 divides the cores among the processes.
        ds_config: path of a DeepSpeed configuration in JSON. Values that the job determines must agree with it.
        launcher: program that starts the processes of this machine, without `train.hosts`.
        hosts: the former place of `train.hosts`; it has the same values.
        port: rendezvous port on the first host; 0 is a free one, or DeepSpeed's 29500 with its launcher.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 0
    micro_batch: int = 0
    stage: Literal["auto", 0, 1, 2, 3] = "auto"
    offload_optimizer: Literal["auto", Offload] = "auto"
    offload_param: Literal["auto", "none", "cpu"] = "auto"
    nvme_path: str = ""
    gradient_checkpointing: bool = False
    deterministic: bool = True
    threads: int = 0
    ds_config: str = ""
    launcher: Literal["torchrun", "deepspeed"] = "torchrun"
    hosts: str = ""
    port: int = 0
