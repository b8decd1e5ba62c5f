"""The planner: options, environments, and how a job is run on a machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.train.backend import Backend, Environment, Finding, Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.machine import plans_tpu
from jprep_torch.options import Options
from jprep_torch.planning import xla
from jprep_torch.planning.checks import environment_findings
from jprep_torch.planning.launch import launch_command, worker_arguments, worker_environment
from jprep_torch.planning.layout import Layout, choose_layout


class Torch(Backend):
    """PyTorch on a CPU, on one or more GPUs, or on TPUs."""

    name: ClassVar[str] = "torch"
    module: ClassVar[str] = "jprep_torch"
    distribution: ClassVar[str] = "jprep-torch"
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

    def environment(self, options: Any) -> Environment:
        """Return the environment for the device: torch_xla and torch_tpu need other versions of PyTorch."""
        plain = msgspec.structs.replace(super().environment(options), also=(xla.TORCH_XLA_ENVIRONMENT.name,))
        return {"xla": xla.TORCH_XLA_ENVIRONMENT, "tpu": xla.TORCH_TPU_ENVIRONMENT}.get(options.device, plain)

    def check(self, options: Any) -> list[Finding]:
        """Return the versions in the environment, and whether the requested device is available."""
        return environment_findings(self, options)

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan a single process, or several that torchrun starts.

        Raises:
            ConfigError: the batch cannot be divided, an option is out of range, or options exclude each other.
        """
        options = self.read_options(job.options)
        layout = choose_layout(job, options, host)
        exact, tpu = options.deterministic, plans_tpu(options)
        env = worker_environment(host, layout.device, layout.processes, options.threads, deterministic=exact)
        return Plan(
            argv=(host.python, *launch_command(layout), "jprep_torch.worker", *worker_arguments(run, layout)),
            env=env | (xla.environment_variables(layout.devices, tpu=tpu) if layout.device == "xla" else {}),
            processes=layout.processes * layout.hosts,
            machines=layout.hosts,
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=layout.memory,
            notes=_notes(layout, run, tpu=tpu),
            target=layout.target,
            smaller=layout.smaller,
            vocabulary=job.train.model.padded(job.model["vocab_size"]),
            divided=layout.shard,
        )


def _notes(layout: Layout, run: Path, *, tpu: bool) -> tuple[str, ...]:
    if layout.device == "tpu":
        return (f"{layout.processes} TPU devices through torch_tpu, one process each; not yet tested on a TPU",)
    return xla.plan_notes(run, layout.devices, layout.hosts, tpu=tpu) if layout.device == "xla" else ()
