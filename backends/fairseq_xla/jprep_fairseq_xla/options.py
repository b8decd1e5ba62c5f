"""`[train.backend.fairseq-xla]`."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

SECTION = "train.backend.fairseq-xla"
"""The section of the options."""

RESULT_OPTIONS = ("activation_dropout", "act_dropout")
"""Of fairseq's own options, those that change what is computed; 0 is as if they were left out."""

Device = Literal["cpu", "xla"]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.fairseq-xla]`.

    Attributes:
        device: `xla` is a TPU, or where there is none XLA on the CPU; `cpu` is plain fairseq without torch_xla; `auto`
            takes `xla` where this machine has TPUs.
        devices: of `xla` on each host, that one process divides the batch among; 0 is all that this machine has.
            Without TPUs they are virtual, for trials.
        hosts: of a TPU slice, each with a process: together they run one program on all devices.
        processes: of `cpu`, that divide the batch.
        rows: rows that go through the model at a time on each device; 0 is as many as the estimate says will fit.
        threads: of each process on a CPU; 0 divides the cores.
        memory: GiB of each device, or on a CPU of each process: for TPUs, whose memory jprep cannot find out, and to
            plan for another machine; 0 is this machine's.
        options: fairseq's own, by the names of its command line with underscores, e.g. `activation_dropout`. One that
            would change nothing here is refused, and a run does not go on with another of `RESULT_OPTIONS`.
    """

    device: Literal["auto", "cpu", "xla"] = "auto"
    devices: int = 0
    hosts: int = 1
    processes: int = 1
    rows: int = 0
    threads: int = 0
    memory: float = 0.0
    options: dict[str, Any] = {}
