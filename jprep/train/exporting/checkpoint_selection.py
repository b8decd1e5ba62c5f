"""Which checkpoint is exported. It is only read: a trainer may be at work beside it."""

from __future__ import annotations

import math
from pathlib import Path

from jprep.errors import ConfigError, InputError, MismatchError
from jprep.train.job.config import Job
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.commit import find_checkpoint_damage, step_of
from jprep.train.run.directory import checkpoints_of


def newest_checkpoint(run: Path, job: Job) -> Checkpoint:
    """The newest committed checkpoint; its files are not looked at.

    Raises:
        ConfigError: there is none.
    """
    committed = checkpoints_of(run, job).committed()
    if not committed:
        fix = "`jprep train` saves one every train.checkpoint.every_steps, and at its end"
        raise ConfigError("this run has no checkpoint yet", where=str(run), fix=fix)
    return committed[-1]


def select_checkpoint(run: Path, job: Job, which: str) -> Checkpoint:
    """The checkpoint that is asked for, all of its hashes checked.

    Args:
        run: the run directory.
        job: its job.
        which: `last`; `best`, of the lowest validation loss; or a step.

    Raises:
        ConfigError: there is no such checkpoint.
        InputError: it is damaged.
        MismatchError: it is another job's.
    """
    _refuse_doubt(run, job, which)
    found = newest_checkpoint(run, job) if which == "last" else _named(run, job, which)
    if not checkpoints_of(run, job).owns(found):
        fix = "take it out of this run's folder"
        raise MismatchError("this checkpoint is another job's", where=str(found.folder), fix=fix)
    if problem := find_checkpoint_damage(found.folder, found.commit):
        others = [str(one.step) for one in checkpoints_of(run, job).committed() if one.step != found.step]
        fix = f"--which {others[-1]}, or train on: damaged ones are set aside" if others else "train on from the start"
        raise InputError(f"the checkpoint is damaged: {problem}", where=str(found.folder), fix=fix)
    return found


def _refuse_doubt(run: Path, job: Job, which: str) -> None:
    """Raise InputError where a checkpoint with a damaged COMMIT might be the one that is asked for."""
    store = checkpoints_of(run, job)
    steps = [one.step for one in store.committed()]
    for folder, problem in store.damaged():
        step = step_of(folder)
        if which == "best" or (which == "last" and step > max(steps, default=-1)) or which == str(step):
            fix = f"--which {steps[-1]}, or train on: damaged ones are set aside" if steps else "train on"
            raise InputError(f"the checkpoint is damaged: {problem}", where=str(folder), fix=fix)


def _named(run: Path, job: Job, which: str) -> Checkpoint:
    committed = checkpoints_of(run, job).committed()
    measured = [one for one in committed if one.commit.loss is not None and math.isfinite(one.commit.loss)]
    if which == "best":
        if not measured:
            fix = "--which last; or train with validation.every_steps and checkpoint.keep_best"
            raise ConfigError("no checkpoint has a validation loss", where=str(run), fix=fix)
        return min(measured, key=lambda one: (one.commit.loss, -one.step))
    for one in committed:
        if which.isdecimal() and one.step == int(which):
            return one
    fix = f"there are: last, best, {', '.join(str(one.step) for one in committed)}" if committed else "train first"
    raise ConfigError(f"there is no checkpoint {which!r}", where=str(run), fix=fix)
