"""Where a run resumes: its newest whole checkpoint. A run that has saved steps never starts at step 0 unasked."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from jprep.errors import InputError
from jprep.io.retry import retry_transient
from jprep.train.run.checkpoints import Checkpoint, CheckpointStore
from jprep.train.run.commit import step_of
from jprep.train.run.events import EVENTS, read_events, record_event, saved_steps
from jprep.train.run.log import on_stderr


def checkpoint_to_resume(run: Path, checkpoints: CheckpointStore) -> Checkpoint | None:
    """Return the newest whole checkpoint, or None for a run that has saved none. Only under the run's lock.

    Damaged checkpoints are set aside, with an event and a line on stderr.

    Args:
        run: the run directory.
        checkpoints: the run's.

    Raises:
        InputError: steps were saved, and no checkpoint is whole.
        MachineError: a checkpoint cannot be read or renamed.
        MismatchError: the newest one is another job's.
    """
    found = checkpoints.latest(lambda folder, problem: report_damaged(run, folder, problem))
    if found is None and (
        saved := saved_steps(retry_transient(lambda: read_events(run), run / EVENTS, "repair the disk"))
    ):
        what = f"the run has saved {max(saved)} steps, and no whole checkpoint is left"
        command = f"{shlex.quote(sys.executable)} -m jprep.train.run.rewind {shlex.quote(str(run))}"
        fix = f"bring a checkpoint back; or, to begin at step 0, run `{command}`, then the same command again"
        raise InputError(what, where=str(run), fix=fix)
    return found


def rewind(run: Path, checkpoints: CheckpointStore, step: int) -> None:
    """Set aside all checkpoints after a step, at the user's wish; 0 for all. Only under the run's lock.

    Raises:
        ConfigError: there is no checkpoint of that step.
        MachineError: the directory cannot be read or written.
    """
    checkpoints.rewind(step)
    record_event(run, "rewind", step)


def report_damaged(run: Path, folder: Path, problem: str) -> None:
    """Say, in events and on stderr, that a checkpoint was set aside."""
    name = f"step-{step_of(folder):08d}"
    note = f"{name} is damaged and was set aside: {problem}"
    record_event(run, "damaged", step_of(folder), note=note)
    on_stderr(f"jprep: {note}\n  where: {folder}")
