"""The planner: checks the options, and plans how a job runs on the devices."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from jprep.train.backend import Backend, Finding, Host, Plan
from jprep.train.hosts.processes import host_count
from jprep.train.job.config import Job
from jprep.train.launcher.multihost import multihost_note
from jprep.train.planning.checks import inspect_environment
from jprep_flax.options import Options
from jprep_flax.planning.checks import environment_findings
from jprep_flax.planning.launch import worker_command, worker_environment, worker_settings
from jprep_flax.planning.layout import Layout, choose_layout


class Flax(Backend):
    """JAX with models in flax.nnx: one process drives all devices of a machine."""

    name: ClassVar[str] = "flax"
    module: ClassVar[str] = "jprep_flax"
    distribution: ClassVar[str] = "jprep-flax"
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
    hooks: ClassVar[str] = "jprep_flax.worker.hooks"
    framework: ClassVar[str] = "flax"
    several_hosts: ClassVar[bool] = True

    def check(self, options: Any) -> list[Finding]:
        """Return the versions in the environment, and whether it has the device of the options."""
        return inspect_environment(self, options, lambda python: environment_findings(python, options))

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan one process for all devices, or several that divide them.

        Raises:
            ConfigError: an axis cannot be sharded as asked, an option is out of its range, or there is no such model.
        """
        layout = choose_layout(job, self.read_options(job.options), host)
        return Plan(
            argv=(host.python, "-m", *worker_command(layout, run)),
            env=worker_environment(layout),
            processes=layout.processes,
            machines=layout.processes if layout.coordinator else host_count(host),
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=layout.memory,
            target=layout.target,
            smaller=layout.smaller,
            vocabulary=layout.vocabulary,
            divided=layout.divided,
            notes=_notes(job, run, layout),
            settings=worker_settings(layout),
        )


def _notes(job: Job, run: Path, layout: Layout) -> tuple[str, ...]:
    """Return what a user should know of a plan, besides its numbers."""
    names = ("data", "fsdp", "tensor")
    sizes = [f"{name} {size}" for name, size in zip(names, layout.mesh, strict=True) if size > 1]
    device = f"{layout.device.upper()} device"
    notes = [f"one {device}" if not sizes else f"a mesh of {layout.world} {device}s: {', '.join(sizes)}"]
    if layout.vocabulary > (ids := job.model["vocab_size"]):
        what = f"the token embedding has {layout.vocabulary} rows, {layout.vocabulary - ids} more than there are ids"
        notes.append(f"{what}: these are excluded from the softmax and not exported")
    return (*notes, *([multihost_note(run, layout.processes)] if layout.coordinator else []))
