"""What the initial weights of a run are made from: the given ones, and tensors that these lack."""

from __future__ import annotations

from pathlib import Path

from jprep.hub.download import name_of
from jprep.plurals import and_more
from jprep.train.job.config import Job
from jprep.train.models.initial_weights import check_init_weights
from jprep.train.models.weights import parameters
from jprep.train.pretrained.vocabulary import RowSources
from jprep.train.run.directory import job_path

_SHOWN = 4  # names of tensors


def describe_init(job: Job, run: Path) -> str:
    """Return where the initial weights come from, and which tensors the given ones lack, which start from the seed.

    Args:
        job: the job.
        run: the run directory, which need not exist.

    Raises:
        ConfigError, InputError: the given weights have changed since the job was built.
    """
    init = init_path(job, run)
    if not init:
        return "from the seed"
    rows: RowSources | None = [] if job.train.model.vocabulary == "transfer" else None  # of any number
    given = check_init_weights(job.model, job.train.objective, init, rows, generator_init_path(job, run))
    fresh = [name for name in parameters(job.model, job.train.objective) if name not in given]
    done = job.steps_before
    continues = f"; the run continues that training after step {done:,}" if done else ""
    return f"from {name_of(init) or init}; {_from_seed(fresh)}{continues}"


def init_path(job: Job, run: Path) -> Path | None:
    """Return the file or folder that `model.init` of a job names; None without one."""
    return _path(job.train.model.init, run)


def generator_init_path(job: Job, run: Path) -> Path | None:
    """Return the folder that `rtd.generator_init` of a job names; None without one, or for another task."""
    return _path(job.train.rtd.generator_init, run) if job.train.task == "rtd" else None


def _path(text: str, run: Path) -> Path | None:
    return job_path(run, text) if text else None


def _from_seed(names: list[str]) -> str:
    if not names:
        return "no tensor starts from the seed"
    return f"these tensors start from the seed: {', '.join(names[:_SHOWN])}{and_more(len(names), _SHOWN)}"
