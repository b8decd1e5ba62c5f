"""The backend's options, and what a plan makes of them."""

from __future__ import annotations

from typing import Literal, NamedTuple

import msgspec

SECTION = "train.backend.deepspeed"
"""The section of the options."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.deepspeed]`.

    Attributes:
        device: `auto` takes GPUs where there are some.
        processes: how many on each host; 0 is one for each GPU, or one.
        rows: rows that go through the model at a time on each device; 0 is as many as the estimate says will fit.
        stage: of ZeRO. 1 divides the optimizer among the processes, 2 gradients too, 3 weights too; `auto` is the
            smallest that fits.
        offload_optimizer: where the optimizer is: `none` on the device, `cpu` in the host's memory; `auto` is what
            `ds_config` says, or `none`.
        offload_param: where stage 3 keeps weights, in the same words.
        recompute: keep each layer's input only, and compute the rest again on the way back: a third slower.
        deterministic: on GPUs, take kernels whose results do not depend on the order that threads come in.
        threads: of each process on a CPU; 0 divides the cores.
        ds_config: a DeepSpeed configuration of one's own, in JSON. What it says of the job has to agree with it.
        launcher: what starts the processes of one host; for several hosts of a hostfile it is always `deepspeed`.
        hosts: "" is this one, `slurm` those of the allocation, else the path of a hostfile (`NAME slots=N` a line).
        port: of the first host, where processes meet; 0 is a free one, or DeepSpeed's 29500, or the Slurm job's own.
        gpu: the GPU to plan for, if it is not this machine's: a name such as `A100-40GB`, or GiB such as `40`.
        host_memory: GiB of memory of each host to plan for, which offloads are judged by; 0 is this machine's, or
            unknown where `gpu` names another machine's GPU.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 0
    rows: int = 0
    stage: Literal["auto", 0, 1, 2, 3] = "auto"
    offload_optimizer: Literal["auto", "none", "cpu"] = "auto"
    offload_param: Literal["auto", "none", "cpu"] = "auto"
    recompute: bool = False
    deterministic: bool = True
    threads: int = 0
    ds_config: str = ""
    launcher: Literal["torchrun", "deepspeed"] = "torchrun"
    hosts: str = ""
    port: int = 0
    gpu: str = ""
    host_memory: float = 0.0


class Layout(NamedTuple):
    """How a job lies on the devices.

    Attributes:
        device: `cpu` or `cuda`.
        world: processes of all hosts.
        rows: that go through the model at a time, of each process.
        accumulate: how many times.
        stage: of ZeRO.
        offload_optimizer: whether the optimizer is in the host's memory.
        offload_param: whether weights are.
        recompute: whether layers are computed again on the way back.
    """

    device: Literal["cpu", "cuda"]
    world: int
    rows: int
    accumulate: int
    stage: int
    offload_optimizer: bool = False
    offload_param: bool = False
    recompute: bool = False
