"""Checks of options, and of the worker's environment on this machine."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Backend, Finding
from jprep.train.job.config import Job
from jprep.train.launcher.import_probe import probe_output
from jprep.train.models import FAMILIES
from jprep.train.planning.checks import check_ranges, inspect_environment, missing_device
from jprep.train.planning.host import accelerators, tpu_count
from jprep.train.planning.machine import MachineOptions, planned_elsewhere
from jprep_torch.options import SECTION, Options
from jprep_torch.planning import xla

XLA_MODELS = ("gpt2", "llama", "qwen3", "bert", "roberta", "electra")
"""The models whose programs in transformers XLA can compile: their shapes depend on no values."""

DEVICE_FIXES = {
    "GPU": 'set the backend\'s option device = "cpu", or install a PyTorch that is built for this GPU',
    "TPU": 'use a machine with TPUs (v4 or later) and torch_tpu, or device = "xla"',
}
"""What to do if PyTorch finds no such device."""

_VERSIONS = (
    "import {}torch, transformers;print(torch.__version__, transformers.__version__, torch.accelerator.device_count())"
)


def check_options(job: Job, options: Options, device: str) -> None:
    """Check ranges and combinations of options.

    Args:
        job: the job.
        options: the backend's options.
        device: the device that was chosen.

    Raises:
        ConfigError: an option is out of range, or does not go with another one or with the job.
    """
    numbers = ("processes", "devices", "micro_batch", "threads", "memory")
    check_ranges(options, SECTION, not_negative=numbers)
    check_experts(job)
    xla.check_hosts(options.hosts, device, SECTION)
    if device in xla.XLA_DEVICES:
        _check_xla(job, options, device)


def check_experts(job: Job) -> None:
    """Check that the loss of routers can be added to the job's.

    Raises:
        ConfigError: a hook replaces the loss of a model with experts.
    """
    if job.train.hooks.loss and job.train.objective == "clm" and "num_experts" in job.model:
        what = "the count of a loss hook does not say how the loss of the experts' routers is divided"
        raise ConfigError(what, where="train.hooks.loss", fix="remove it, or use a model without experts, e.g. qwen3")


def _check_xla(job: Job, options: Options, device: str) -> None:
    """Check what programs compiled by XLA support."""
    if job.train.has_labelled_rows or job.train.precision == "fp16":
        what = f"device {device} supports packed text in fp32 or bf16 only"
        raise ConfigError(what, where=f"{SECTION}.device", fix="use another device, or the backend flax")
    kind = job.model["model_type"]
    plugin = FAMILIES.plugin_of(kind)
    if not ("xla" in plugin.features if plugin else kind in XLA_MODELS):
        fix = f"use one of {', '.join(XLA_MODELS)}, or another device"
        what = f"device {device} cannot train a {kind}"
        raise ConfigError(what, where="train.model.config.model_type", fix=fix)
    if job.train.optimizer.kind != "adamw":
        what = f"device {device} has AdamW only"
        raise ConfigError(what, where="train.optimizer.kind", fix="use another device, or remove kind")
    if options.shard == "yes":
        what = f"device {device} holds all weights on each device"
        raise ConfigError(what, where=f"{SECTION}.shard", fix="leave it out, or use the backend flax, which shards")
    if device == "xla" and (options.processes > 1 or options.compile):
        fix = f"leave out processes and compile; {SECTION}.devices divides the batch"
        raise ConfigError("device xla has one process on each host", where=SECTION, fix=fix)


def environment_findings(backend: Backend, options: Options) -> list[Finding]:
    """Return the versions in the worker's environment, and whether it finds the requested device.

    Args:
        backend: the planner.
        options: its options.
    """

    def describe(python: Path) -> list[Finding]:
        torch, transformers, count = _versions(python, backend.environment(options).needs).split()
        versions = f"PyTorch {torch}, transformers {transformers}"
        if options.device == "xla":
            return [Finding(f"{versions}, torch_xla, {tpu_count()} TPUs")]
        kind = "TPU" if options.device == "tpu" else "GPU"
        missing = find_missing_device(options, options.device, kind, int(count), options.memory)
        return [Finding(f"{versions}, {count} usable {kind}s"), *missing]

    return inspect_environment(backend, options, describe)


def find_missing_device(
    options: MachineOptions, device: str, kind: str, count: int, memory: float = 0.0
) -> list[Finding]:
    """Return an error or a note if PyTorch does not find the device that a run would use.

    Args:
        options: the backend's options.
        device: its option `device`.
        kind: `GPU` or `TPU`.
        count: how many PyTorch finds.
        memory: the option `memory`, if the backend has it.
    """
    needed = device in ("cuda", "tpu") or (device == "auto" and (options.gpu or accelerators()))
    if count or not needed:
        return []
    elsewhere = planned_elsewhere(options, memory)
    return [missing_device("PyTorch", kind, DEVICE_FIXES[kind], planned_elsewhere=elsewhere)]


def _versions(python: Path, needs: str) -> str:
    return probe_output(python, _VERSIONS.format(f"{needs}, " if needs else ""))
