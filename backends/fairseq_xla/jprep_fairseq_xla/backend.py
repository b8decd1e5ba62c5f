"""The planner: checks the options, and plans how a job runs on the devices and with which options of fairseq."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from jprep.train.backend import Backend, Environment, Finding, Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.checks import inspect_environment
from jprep.train.planning.machine import plans_tpu
from jprep_fairseq_xla.options import RESULT_OPTIONS, Options
from jprep_fairseq_xla.planning.checks import environment_findings, resolve_device
from jprep_fairseq_xla.planning.fairseq_options import training_options
from jprep_fairseq_xla.planning.launch import worker_command, worker_environment
from jprep_fairseq_xla.planning.layout import Layout, choose_layout
from jprep_torch.planning.xla import TORCH_XLA_ENVIRONMENT, plan_notes


class FairseqXla(Backend):
    """fairseq on XLA's devices, on GPUs, or on a CPU."""

    name: ClassVar[str] = "fairseq-xla"
    module: ClassVar[str] = "jprep_fairseq_xla"
    distribution: ClassVar[str] = "jprep-fairseq-xla"
    Options: ClassVar[type[Any]] = Options
    evaluates: ClassVar[bool] = True
    tasks: ClassVar[tuple[str, ...]] = (*Backend.tasks, "sft")
    features: ClassVar[tuple[str, ...]] = ("document_masks",)
    no_hooks_reason: ClassVar[str] = "fairseq's own criterion computes the loss, inside its trainer"

    def environment(self, options: Any) -> Environment:
        """Return the environment of a device: plain fairseq accepts any PyTorch, torch_xla only its own."""
        device = resolve_device(options)
        if device == "xla":
            return TORCH_XLA_ENVIRONMENT
        install = f"{self.name} --set device={device}"
        also = ("fairseq-cuda", TORCH_XLA_ENVIRONMENT.name) if device == "cpu" else ()
        return Environment(name=f"fairseq-{device}", distribution=self.distribution, also=also, install=install)

    def check(self, options: Any) -> list[Finding]:
        """Return whether the environment has the versions that the patches are for, and the device of the options."""
        return inspect_environment(self, options, lambda python: environment_findings(python, options))

    def result_options(self, options: Any) -> dict[str, Any]:
        """Return the options that change the result, but for those that are 0."""
        return {name: value for name, value in options.options.items() if name in RESULT_OPTIONS and value}

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan one process for all XLA devices of a host, or several on GPUs or on a CPU.

        Raises:
            ConfigError: the batch cannot be divided, fairseq has no such model, or an option has no effect.
        """
        options = self.read_options(job.options)
        layout = choose_layout(job, options, host)
        fairseq_options = training_options(job, layout.device, layout.processes, layout.accumulate, options.options)
        return Plan(
            argv=(host.python, *worker_command(layout, run, fairseq_options)),
            env=worker_environment(layout, options, host),
            processes=layout.processes * layout.hosts,
            machines=layout.hosts,
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=layout.memory,
            notes=_notes(run, layout, tpu=plans_tpu(options)),
            settings=fairseq_options,
            target=layout.target,
            smaller=layout.smaller,
        )


def _notes(run: Path, layout: Layout, *, tpu: bool) -> tuple[str, ...]:
    if layout.device == "cpu":
        return ("plain fairseq on the CPU",)
    if layout.device == "cuda":
        return (f"plain fairseq on {layout.processes} GPU{'s' * (layout.processes > 1)}; not yet run on a GPU",)
    return plan_notes(run, layout.devices, layout.hosts, tpu=tpu)
