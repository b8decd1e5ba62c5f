"""The options in `[train.backend.fairseq-xla]`."""

from __future__ import annotations

from typing import Any, Literal

from jprep.train.planning.machine import TpuMachineOptions

SECTION = "train.backend.fairseq-xla"
"""The section of the options, for error messages."""

RESULT_OPTIONS = ("activation_dropout", "act_dropout")
"""Options of fairseq that change the result; 0 is the same as leaving them out."""

Device = Literal["cpu", "cuda", "xla"]


class Options(TpuMachineOptions, frozen=True, kw_only=True):
    """`[train.backend.fairseq-xla]`.

    Attributes:
        device: `xla` is a TPU, or XLA on the CPU if there is none; `cuda` and `cpu` are plain fairseq without
            torch_xla; `auto` uses `xla` if this machine has TPUs, else `cuda` if it has GPUs.
        devices: XLA devices of each host, among which one process shards the batch; 0 uses all of this machine. Without
            TPUs they are virtual, for trials.
        hosts: hosts of a TPU slice, with one process each; together they run one program on all devices.
        processes: processes on GPUs or on a CPU that share the batch; 0 is one for each GPU, and one on a CPU.
        micro_batch: rows that go through the model at a time on each device; gradients are accumulated over a batch. 0
            uses as many as fit into memory by the estimate.
        deterministic: on GPUs, use kernels whose results do not depend on the order of threads.
        threads: threads of each process on a CPU; 0 divides the cores.
        memory: GiB of each device, or of each process on a CPU: for TPUs, whose memory jprep cannot detect, and to plan
            for another machine; 0 detects it.
        options: fairseq's own options, named as on its command line with underscores, e.g. `activation_dropout`.
            Options without an effect are refused. A run cannot resume with other values of `activation_dropout` or
            `act_dropout`.
    """

    device: Literal["auto", "cpu", "cuda", "xla"] = "auto"
    devices: int = 0
    hosts: int = 1
    processes: int = 0
    micro_batch: int = 0
    deterministic: bool = True
    threads: int = 0
    memory: float = 0.0
    options: dict[str, Any] = {}
