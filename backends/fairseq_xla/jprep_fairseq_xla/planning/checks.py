"""Check options before anything is planned, and report what the environment has."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Finding
from jprep.train.launcher.import_probe import run_probe
from jprep.train.planning.checks import check_ranges, missing_device
from jprep.train.planning.host import accelerators
from jprep.train.planning.machine import planned_elsewhere, plans_tpu
from jprep_fairseq_xla.options import SECTION, Device, Options
from jprep_torch.planning.xla import check_hosts

_PROBE = """import sys
from jprep_fairseq_xla.worker.environment_report import print_environment_report
sys.exit(print_environment_report({!r}))
"""


def resolve_device(options: Options) -> Device:
    """Return the device that `auto` means on this machine."""
    if options.device == "auto":
        return "cuda" if options.gpu else "xla" if plans_tpu(options) else "cuda" if accelerators() else "cpu"
    return options.device


def check_options(options: Options, device: Device) -> None:
    """Check each option by itself.

    Raises:
        ConfigError: an option is out of its range, or has no effect on the device.
    """
    not_negative = ("devices", "processes", "micro_batch", "threads", "memory")
    check_ranges(options, SECTION, not_negative=not_negative)
    check_hosts(options.hosts, device, SECTION)
    if device == "xla" and options.processes > 1:
        fix = f"set {SECTION}.devices: one process shards the batch among them"
        raise ConfigError("XLA's devices have one process on each host", where=f"{SECTION}.processes", fix=fix)
    if device != "xla" and options.devices > 1:
        fix = f'set {SECTION}.processes, or device = "xla"'
        raise ConfigError("plain fairseq uses processes, not devices", where=f"{SECTION}.devices", fix=fix)


def environment_findings(python: Path, options: Options) -> list[Finding]:
    """Return the versions in an environment.

    Args:
        python: the environment's interpreter.
        options: the options.

    Raises:
        ConfigError: the environment lacks a version that the patches are for.
    """
    found = [Finding(_probe_versions(python, resolve_device(options)))]
    if options.device == "xla" and not plans_tpu(options):
        what = "this machine has no TPU: XLA runs on the CPU"
        found.append(Finding(what, "note", 'device = "cpu" is faster'))
    if options.device == "cuda" and not accelerators():
        fix = 'device = "cpu", or use a machine with NVIDIA GPUs'
        found.append(
            missing_device("PyTorch", "GPU", fix, planned_elsewhere=planned_elsewhere(options) or bool(options.memory))
        )
    return found


def _probe_versions(python: Path, device: Device) -> str:
    done = run_probe(python, _PROBE.format(device))
    if done.returncode:
        what, _, fix = done.stdout.strip().partition("\n")
        raise ConfigError(what or (done.stderr.strip().splitlines() or ["no error message"])[-1], fix=fix)
    return done.stdout.strip()
