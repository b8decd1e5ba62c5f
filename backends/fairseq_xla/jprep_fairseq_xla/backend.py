"""The light half: how a job is divided among devices and micro-batches, and what fairseq is told."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Finding, Host, Plan
from jprep.train.environments import python_of
from jprep.train.job import Job
from jprep.train.models import training_memory
from jprep_fairseq_xla.options import WHERE, Device, Options
from jprep_fairseq_xla.settings import fairseq_settings
from jprep_torch.backend import environment, torchrun

_SHARE = 0.85  # of a device's memory that a plan fills; the rest is the libraries' own
_MOST = 1 << 14  # rows at a time that are thought of


class FairseqXla:
    """fairseq on XLA's devices, or on a CPU."""

    name: ClassVar[str] = "fairseq-xla"
    module: ClassVar[str] = "jprep_fairseq_xla"
    distribution: ClassVar[str] = "jprep-fairseq-xla"
    Options: ClassVar[type[Any]] = Options

    def check(self, options: Any) -> list[Finding]:
        """What its environment holds, and whether the device that is asked for is there."""
        return []

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """One process for all devices of XLA, or so many on a CPU.

        Raises:
            ConfigError: the batch cannot be divided, fairseq has no such model, or an option has no effect.
        """
        options = msgspec.convert(job.options, Options)
        device: Device = "cpu" if options.device == "auto" else options.device
        rows = options.rows or job.train.batch // options.processes
        accumulate = job.train.batch // options.processes // rows
        settings = fairseq_settings(job, device, options.processes, accumulate, options.options)
        verb = ["train", str(run), "--device", device, "--rows", str(rows), "--settings", json.dumps(settings)]
        env = environment(host, device, options.processes, options.threads, deterministic=True)
        return Plan(
            argv=(host.python, *torchrun(options.processes), "jprep_fairseq_xla.worker", *verb),
            env=env | ({"PJRT_DEVICE": "CPU"} if device == "xla" else {}),
            processes=options.processes,
            rows=rows,
            accumulate=accumulate,
            memory=0,
            settings=settings,
        )
