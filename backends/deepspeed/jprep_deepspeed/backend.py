"""The planner: how a job is run with DeepSpeed on one host or several."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from jprep.train.backend import Backend, Finding, Host, Plan
from jprep.train.hosts.processes import host_count
from jprep.train.job.config import Job
from jprep_deepspeed.options import Options
from jprep_deepspeed.planning.checks import environment_findings
from jprep_deepspeed.planning.launch import launch_command, worker_arguments
from jprep_deepspeed.planning.layout import choose_layout


class DeepSpeed(Backend):
    """DeepSpeed's ZeRO on CPUs and GPUs, on one host or several."""

    name: ClassVar[str] = "deepspeed"
    module: ClassVar[str] = "jprep_deepspeed"
    distribution: ClassVar[str] = "jprep-deepspeed"
    Options: ClassVar[type[Any]] = Options
    evaluates: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (*Backend.tasks, "rtd", "sft")
    features: ClassVar[tuple[str, ...]] = (
        "document_masks",
        "z_loss",
        "stages",
        "optimizer.kind",
        "optimizer.layer_decay",
        "class_weights",
    )
    hooks: ClassVar[str] = "jprep_torch.worker.hooks"
    framework: ClassVar[str] = "torch"
    scores: ClassVar[bool] = True
    several_hosts: ClassVar[bool] = True

    def check(self, options: Any) -> list[Finding]:
        """Return the versions in the environment, and what would make a run with these options fail here."""
        return environment_findings(self, options)

    def hosts(self, options: Any) -> str:
        """Return the option `hosts`, which is now `train.hosts`."""
        hosts: str = options.hosts
        return hosts

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan a single process, or several that a launcher starts.

        Raises:
            ConfigError: the batch cannot be divided, an option is out of range, options exclude each other, or a
                DeepSpeed configuration disagrees with the job.
        """
        chosen = choose_layout(job, self.read_options(job.options), host)
        layout, options = chosen.layout, chosen.options
        arguments = worker_arguments(run, chosen.config, layout)
        started = launch_command(options, chosen.processes, host, layout.device, arguments)
        return Plan(
            argv=started.argv,
            env=started.env,
            processes=layout.world,
            machines=host_count(host),
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=chosen.memory.total,
            notes=(*chosen.notes, *started.notes),
            settings=chosen.config,
            target=chosen.target,
            host_memory=chosen.memory.host,
            smaller=chosen.smaller,
            vocabulary=job.train.model.padded(job.model["vocab_size"]),
        )
