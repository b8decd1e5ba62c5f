"""Select the checkpoint to export. Checkpoints are only read, so the run may be training meanwhile."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError, InputError, MismatchError
from jprep.train.job.best import best_figure, is_best_kept
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.commit import best_first, find_checkpoint_damage, step_of
from jprep.train.run.directory import checkpoints_of
from jprep.train.run.resume import is_complete


def newest_checkpoint(run: Path, job: Job) -> Checkpoint:
    """Return the newest committed checkpoint, without checking its files.

    Raises:
        ConfigError: there is none.
    """
    committed = checkpoints_of(run, job).committed()
    if not committed:
        fix = "`jprep train` saves one every train.checkpoint.every_steps, and at its end"
        raise ConfigError("this run has no checkpoint yet", where=str(run), fix=fix)
    return committed[-1]


def default_checkpoint(run: Path, job: Job) -> str:
    """Return which checkpoint to export by default: `best` of a training that ended early and keeps it, else `last`.

    Raises:
        ConfigError: there is none.
    """
    step = newest_checkpoint(run, job).step
    return "best" if is_best_kept(job.train, step, job.steps) and is_complete(run, job, step) else "last"


def named_checkpoint(run: Path, job: Job, which: str) -> Checkpoint:
    """Return the checkpoint that a choice names, without checking its files; see `select_checkpoint`."""
    return newest_checkpoint(run, job) if which == "last" else _named(run, job, which)


def final_steps(run: Path, job: Job) -> set[int]:
    """Return the steps of the checkpoints that `last` and `best` name, without checking their files."""
    commits = [checkpoint.commit for checkpoint in checkpoints_of(run, job).committed()]
    best = best_first(commits, best_figure(job.train.checkpoint))
    return {one.step for one in (*commits[-1:], *best[:1])}


def select_checkpoint(run: Path, job: Job, which: str) -> Checkpoint:
    """Return a checkpoint, after checking all of its hashes.

    Args:
        run: the run directory.
        job: its job.
        which: `last`; `best`, with the lowest validation loss or the best figure that `checkpoint.best` names; a step.

    Raises:
        ConfigError: there is no such checkpoint.
        InputError: it is damaged.
        MismatchError: it belongs to another job.
    """
    _refuse_doubt(run, job, which)
    found = named_checkpoint(run, job, which)
    if not checkpoints_of(run, job).owns(found):
        fix = "move it out of this run's directory"
        raise MismatchError("this checkpoint belongs to another job", where=str(found.folder), fix=fix)
    if problem := find_checkpoint_damage(found.folder, found.commit):
        others = [
            str(checkpoint.step) for checkpoint in checkpoints_of(run, job).committed() if checkpoint.step != found.step
        ]
        fix = f"--which {others[-1]}, or resume training, which sets it aside" if others else "train the run again"
        raise InputError(f"the checkpoint is damaged: {problem}", where=str(found.folder), fix=fix)
    return found


def _refuse_doubt(run: Path, job: Job, which: str) -> None:
    """Raise InputError if a checkpoint with a damaged `COMMIT.json` could be the requested one."""
    store = checkpoints_of(run, job)
    steps = [checkpoint.step for checkpoint in store.committed()]
    for folder, problem in store.damaged():
        step = step_of(folder)
        if which == "best" or (which == "last" and step > max(steps, default=-1)) or which == str(step):
            fix = f"--which {steps[-1]}, or resume training, which sets it aside" if steps else "resume training"
            raise InputError(f"the checkpoint is damaged: {problem}", where=str(folder), fix=fix)


def _named(run: Path, job: Job, which: str) -> Checkpoint:
    committed = checkpoints_of(run, job).committed()
    if which == "best":
        best = best_figure(job.train.checkpoint)
        if not (found := best_first((checkpoint.commit for checkpoint in committed), best)):
            fix = "--which last; or train with validation.every_steps and checkpoint.keep_best"
            raise ConfigError(f"no checkpoint has a validation {best.name}", where=str(run), fix=fix)
        which = str(found[0].step)
    for checkpoint in committed:
        if which.isdecimal() and checkpoint.step == int(which):
            return checkpoint
    fix = (
        f"choose last, best, {', '.join(str(checkpoint.step) for checkpoint in committed)}"
        if committed
        else "train first"
    )
    raise ConfigError(f"there is no checkpoint {which!r}", where=str(run), fix=fix)
