"""Check jobs and options before anything is planned, and report what the environment has."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Finding
from jprep.train.job.config import Job
from jprep.train.launcher.import_probe import probe_output
from jprep.train.planning.checks import check_ranges
from jprep_new_backend.options import SECTION, Options

MODEL_TYPES = ("gpt2",)
TASKS = ("clm",)
PRECISIONS = ("fp32",)

_PROBE = "import numpy; print(numpy.__version__)"


def check_options(options: Options) -> None:
    """Check each option by itself.

    Raises:
        ConfigError: an option is out of its range.
    """
    check_ranges(options, SECTION, not_negative=("micro_batch", "threads"))


def check_job(job: Job) -> None:
    """Check that the backend supports the job's model, task and precision.

    Raises:
        ConfigError: it does not.
    """
    supported = (
        ("train.task", job.train.task, TASKS),
        ("train.model.config.model_type", job.model["model_type"], MODEL_TYPES),
        ("train.precision", job.train.precision, PRECISIONS),
    )
    for key, value, values in supported:
        if value not in values:
            fix = f"use {' or '.join(values)}, or another backend"
            raise ConfigError(f"the backend new-backend does not support {value!r}", where=key, fix=fix)


def environment_findings(python: Path) -> list[Finding]:
    """Return the versions in an environment.

    Args:
        python: the environment's interpreter.

    Raises:
        MachineError: numpy cannot be imported there.
    """
    return [Finding(f"numpy {probe_output(python, _PROBE).strip()}")]
