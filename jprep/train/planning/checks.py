"""Checks that backends share: ranges of options, and the environment of the worker."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Backend, Finding
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_python


def check_ranges(options: Any, section: str, *, not_negative: Sequence[str], positive: Sequence[str] = ()) -> None:
    """Check the ranges of numeric options.

    Args:
        options: a backend's options.
        section: their section of the recipe, for messages.
        not_negative: names of options that must be 0 or more.
        positive: names of options that must be 1 or more.

    Raises:
        ConfigError: an option is out of range.
    """
    for name in not_negative:
        if (value := getattr(options, name)) < 0:
            what = f"{name} is {value}, and must be 0 or more"
            raise ConfigError(what, where=f"{section}.{name}", fix="use 0 to let jprep choose")
    for name in positive:
        if (value := getattr(options, name)) < 1:
            raise ConfigError(f"{name} is {value}, and must be 1 or more", where=f"{section}.{name}", fix=f"{name} = 1")


def check_no_8bit_averages(job: Job, backend: str) -> None:
    """Check that a job does not ask for averages of eight bits, which a backend lacks.

    Raises:
        ConfigError: it does.
    """
    if job.train.optimizer.kind == "adamw-8bit":
        fix = 'kind = "adamw" or "muon", or another backend, e.g. --backend torch'
        what = f"the backend {backend} has no averages of eight bits"
        raise ConfigError(what, where="train.optimizer.kind", fix=fix)


def inspect_environment(backend: Backend, options: Any, describe: Callable[[Path], list[Finding]]) -> list[Finding]:
    """Return what is found in the environment of a backend's worker, or why it cannot be used.

    Args:
        backend: the backend.
        options: its options.
        describe: returns the findings for the environment's interpreter; a `JprepError` becomes a finding.
    """
    try:
        return describe(worker_python(backend, options))
    except JprepError as error:
        command = f"jprep backends install {backend.environment(options).install} --restart"
        return [Finding(error.what, "error", error.fix or command)]


def missing_device(library: str, kind: str, fix: str, *, planned_elsewhere: bool) -> Finding:
    """Return the finding for a kind of device that a framework does not find.

    Args:
        library: the framework.
        kind: `GPU` or `TPU`.
        fix: what to do.
        planned_elsewhere: whether the plan is for another machine, so that none is needed here.
    """
    if planned_elsewhere:
        return Finding(f"planned for another machine: this one has no {kind}", "note", fix)
    return Finding(f"{library} finds no {kind}", "error", fix)
