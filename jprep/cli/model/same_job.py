"""Find a run of the same job beside one that is about to begin, as of another backend."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.cli.common.output import note
from jprep.cli.common.shell_command import current_words, shell_command

if TYPE_CHECKING:
    from jprep.train.job.config import Job


def note_same_job(run: Path, job: Job) -> None:
    """Say which run beside a new one has the same job and a checkpoint, and how to resume that one instead."""
    from jprep.train.run.directory import JOB

    if (run / JOB).exists():
        return
    if found := same_job(run.parent, job):
        other, step = found
        command = shell_command(*current_words(), "--name", other.name)
        note(f"jprep: the same job is at step {step:,} in {other}; to continue from there:  {command}")


def same_job(runs: Path, job: Job) -> tuple[Path, int] | None:
    """Return the run of a job, of those in a folder, with the latest checkpoint, and its step; None if none has one."""
    from jprep.train.run.directory import JOB

    steps = {path.parent: _step(path.parent, job) for path in sorted(runs.glob(f"*/{JOB}"))}
    best = max(steps, key=steps.__getitem__, default=None)
    return (best, steps[best]) if best and steps[best] else None


def _step(run: Path, job: Job) -> int:
    """Return the step of the newest checkpoint of a run; 0 if it has none, or another job."""
    from jprep.errors import JprepError
    from jprep.train.run.directory import checkpoints_of, read_job

    with contextlib.suppress(JprepError, OSError):  # a damaged run says so when it is resumed
        other = read_job(run)
        committed = checkpoints_of(run, other).committed() if other.fingerprint == job.fingerprint else []
        return committed[-1].step if committed else 0
    return 0
