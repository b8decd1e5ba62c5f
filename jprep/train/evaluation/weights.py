"""The weights that an evaluation measures: those of a checkpoint, or those that the training began with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from jprep.errors import ConfigError, InputError
from jprep.io.atomic import file_sha256
from jprep.train.exporting.checkpoint_selection import default_checkpoint, select_checkpoint
from jprep.train.job.config import Job
from jprep.train.run.commit import find_checkpoint_damage
from jprep.train.run.directory import CHECKPOINTS, INIT, INIT_HASH, given_state_store

INITIAL = "initial"
"""The choice of the weights that the training began with."""

_FIX = "run the same `jprep train` again, which writes them again"


class MeasuredWeights(NamedTuple):
    """Weights of a run.

    Attributes:
        step: the number of updates done.
        hash: the seal of the checkpoint's `COMMIT.json`, or the SHA-256 of the file.
        path: the checkpoint or the file, relative to the run directory.
        checkpoint: the name of the checkpoint; "" for those that the training began with.
    """

    step: int
    hash: str
    path: Path
    checkpoint: str = ""


def select_weights(run: Path, job: Job, which: str = "") -> MeasuredWeights:
    """Return weights of a run, after checking their hashes.

    Args:
        run: the run directory.
        job: its job.
        which: `last`, `best` or a step (`jprep.train.exporting.checkpoint_selection.select_checkpoint`), or `initial`;
            by default `best` of a training that ended early and keeps it, else `last`.

    Raises:
        ConfigError: there are no such weights.
        InputError: they are damaged.
        MismatchError: the checkpoint belongs to another job.
    """
    if which == INITIAL:
        return _initial_weights(run, job)
    try:
        found = select_checkpoint(run, job, which or default_checkpoint(run, job))
    except ConfigError as error:
        raise error.replace(fix=f"{error.fix}; or --which {INITIAL} for the weights before the training") from error
    name = found.folder.name
    return MeasuredWeights(found.step, found.commit.seal, Path(CHECKPOINTS, name), checkpoint=name)


def _initial_weights(run: Path, job: Job) -> MeasuredWeights:
    """Return the weights of step 0, or of the training that the run continues."""
    return _given_weights(run, job) if job.steps_before else _weights_of_step_0(run)


def _given_weights(run: Path, job: Job) -> MeasuredWeights:
    found = given_state_store(run, job).committed()
    if not found:
        raise _missing(run)
    folder, commit = found[-1]
    if problem := find_checkpoint_damage(folder, commit):
        raise _damaged(folder, problem)
    return MeasuredWeights(commit.step, commit.seal, folder.relative_to(run))


def _weights_of_step_0(run: Path) -> MeasuredWeights:
    weights, mark = run / INIT, run / INIT_HASH
    if not (weights.exists() and mark.exists()):
        raise _missing(run)
    found = file_sha256(weights)
    if found.encode() != mark.read_bytes():
        raise _damaged(weights, f"its SHA-256 is not the one in {INIT_HASH}")
    return MeasuredWeights(0, found, Path(INIT))


def _missing(run: Path) -> ConfigError:
    return ConfigError("the run has no initial weights", where=str(run), fix=_FIX)


def _damaged(path: Path, problem: str) -> InputError:
    return InputError(f"the initial weights are damaged: {problem}", where=str(path), fix=_FIX)
