"""The light half: the backend's options, and how a job is divided among processes and micro-batches."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Finding, Host, Plan
from jprep.train.environments import python_of
from jprep.train.job import Job
from jprep.train.models import training_memory

_SHARE = 0.85
"""Of a device's memory that a plan fills; the rest is the libraries' own."""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """`[train.backend.torch]`.

    Attributes:
        device: `auto` takes a GPU where there is one.
        processes: how many; 0 is one for each GPU, or one.
        rows: rows that go through the model at a time on each device; 0 is as many as the estimate says will fit.
        shard: whether weights, gradients and optimizer are divided among the processes (FSDP2); `auto` does it where
            they would not fit otherwise.
        compile: whether torch.compile makes the model's kernels; the first step then takes some tens of seconds.
        threads: of a process on a CPU; 0 divides the cores.
        recompute: keep only each layer's input, and compute the rest again on the way back: less memory, a third slower.
    """

    device: Literal["auto", "cpu", "cuda"] = "auto"
    processes: int = 0
    rows: int = 0
    shard: Literal["auto", "yes", "no"] = "auto"
    compile: bool = False
    threads: int = 0
    recompute: bool = False


class Torch:
    """PyTorch on a CPU, one GPU or several."""

    name: ClassVar[str] = "torch"
    module: ClassVar[str] = "jprep_torch"
    distribution: ClassVar[str] = "jprep-torch"
    Options: ClassVar[type[Any]] = Options
