"""Submit a training to Slurm: one job that runs jprep on its first node, and is requeued until it is finished."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from jprep.engine.schedulers.choice import find_scheduler
from jprep.engine.schedulers.job import Job, Resources, seconds
from jprep.errors import ConfigError, MachineError
from jprep.io.atomic import write_atomic
from jprep.io.lock import hold_lock
from jprep.io.shared.network_files import exists_now
from jprep.train.backend_loading import load_backend
from jprep.train.hosts.find import THIS_MACHINE
from jprep.train.hosts.requeue import REQUEUE, SLURM
from jprep.train.hosts.submit_config import SubmitConfig
from jprep.train.job.config import TrainConfig

_SECTION = "train.submit"
_LAST, _LOCK = "last-job", "LOCK"
_LOCK_SECONDS = 300.0  # for another command, which waits for Slurm's answers


def training_job(config: SubmitConfig, words: Sequence[str], name: str, run: Path) -> Job:
    """Return the job of a run.

    Args:
        config: `[train.submit]`.
        words: the arguments of `jprep` that train it.
        name: the job's name.
        run: the run directory; logs are written beside it.
    """
    fields = {field: getattr(config, field) for field in Resources.__struct_fields__}
    options = [*config.options, f"--nodes={config.min_nodes or config.nodes}-{config.nodes}"]
    hosts = SLURM if config.nodes > 1 else THIS_MACHINE
    command = [sys.executable, "-P", "-m", "jprep", *words, "--set", f"train.hosts={hosts}"]
    return Job(
        name=name,
        command=command,
        logs=job_logs(run),
        folder=Path.cwd(),
        resources=Resources(**fields | {"options": options}),
        environment={REQUEUE: SLURM},
    )


def job_logs(run: Path) -> Path:
    """Return the folder for the logs of a run's jobs."""
    run = run.absolute()
    return run.with_name(f"{run.name}.jobs")


class SubmittedJob(NamedTuple):
    """The job of a training.

    Attributes:
        number: its id.
        is_new: whether it was submitted just now; otherwise it waits or runs already.
        log: its log.
    """

    number: str
    is_new: bool
    log: Path


def submit_training(job: Job) -> SubmittedJob:
    """Submit the job of a training, unless Slurm still has one: it is requeued until the training is finished.

    The id is stored beside the logs. Of several commands at once, one submits.

    Raises:
        MachineError: Slurm is not installed, refuses the job or does not answer; or another command still submits.
    """
    with hold_lock(job.logs / _LOCK, timeout=_LOCK_SECONDS, inheritable=False):
        before = _live_job(job.logs)
        number = before or _submit(job)
        if not before:
            write_atomic(job.logs / _LAST, f"{number}\n".encode())
    return SubmittedJob(number, not before, job.logs / f"{number}.log")


def _submit(job: Job) -> str:
    try:
        return find_scheduler(SLURM).submit(job)
    except MachineError as error:
        if error.where != job.name:  # Slurm is not installed, or does not answer
            raise
        fix = f"correct [{_SECTION}] of the recipe or --set {_SECTION}.…; --dry-run prints the script"
        raise MachineError(error.what, where=f"[{_SECTION}]", fix=fix) from error


def _live_job(logs: Path) -> str:
    """Return the id of the last job that was submitted, if Slurm still has it; else ""."""
    if not exists_now(logs / _LAST):  # another host may have written it
        return ""
    number = (logs / _LAST).read_text().strip()
    return number if number and find_scheduler(SLURM).states([number]) else ""


def script_of(job: Job) -> str:
    """Return the script of a job."""
    return find_scheduler(SLURM).script(job)


def check_submission(executor: str, train: TrainConfig, backend_name: str) -> None:
    """Check that a training can be submitted.

    Args:
        executor: the executor.
        train: the recipe's `[train]`.
        backend_name: the backend's name.

    Raises:
        ConfigError: the executor cannot submit a training, `[train.submit]` is wrong, or the backend uses one node.
    """
    if executor != SLURM:
        fix = "in a job of PBS or Grid Engine run `jprep train … --set train.hosts=pbs` (or grid-engine)"
        raise ConfigError(f"a training cannot be submitted to {executor!r}", where="--executor", fix=fix)
    check_submit_config(train.submit)
    if train.submit.nodes > 1 and not load_backend(backend_name).several_hosts:
        fix = "nodes = 1, or the backend torch, deepspeed or flax"
        raise ConfigError(f"the backend {backend_name} uses one node", where=f"{_SECTION}.nodes", fix=fix)


def check_submit_config(config: SubmitConfig) -> None:
    """Check the number of nodes, and that there is time before the warning of the time limit.

    Raises:
        ConfigError: there are no nodes or fewer than the least number, or the job would be warned as soon as it starts.
    """
    if config.nodes < 1 or not 0 <= config.min_nodes <= config.nodes:
        what = f"nodes is {config.nodes} and min_nodes is {config.min_nodes}"
        raise ConfigError(what, where=_SECTION, fix="e.g. nodes = 4, min_nodes = 1")
    if 0 < (limit := _seconds(config.time)) <= config.warn:
        what = f"the job would be requeued as soon as it starts: its limit is {limit} s, and warn is {config.warn} s"
        raise ConfigError(what, where=f"{_SECTION}.warn", fix="a longer time, or a smaller warn")


def _seconds(time: str) -> int:
    """Return a time limit in seconds; 0 without one, or for a form that only Slurm knows."""
    try:
        return seconds(time) if time else 0
    except ConfigError:
        return 0
