"""Find the checkpoint that a run resumes from. A run that has saved steps never begins again by itself."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path

from jprep.errors import InputError
from jprep.io.retry import retry_transient
from jprep.train.job.best import Patience, best_figure
from jprep.train.job.config import Job
from jprep.train.job.intervals import is_interval_end
from jprep.train.run.checkpoints import Checkpoint, CheckpointStore
from jprep.train.run.commit import checkpoint_name, step_of
from jprep.train.run.events import EVENTS, Event, read_events, record_event, saved_steps
from jprep.train.run.log import on_stderr


def checkpoint_to_resume(run: Path, checkpoints: CheckpointStore) -> Checkpoint | None:
    """Return the newest valid checkpoint, or None if the run has saved none. Requires the run's lock.

    Damaged checkpoints are set aside, with an event and a message on stderr.

    Args:
        run: the run directory.
        checkpoints: the run's checkpoints.

    Raises:
        InputError: steps were saved, and no valid checkpoint is left.
        MachineError: a checkpoint cannot be read or renamed.
        MismatchError: the newest one belongs to another job.
    """
    found = checkpoints.latest(lambda folder, problem: report_damaged(run, folder, problem))
    if found is None and (saved := saved_steps(_all_events(run))):
        what = f"the run has saved {max(saved)} steps, and no valid checkpoint is left"
        command = f"{shlex.quote(sys.executable)} -m jprep.train.run.rewind {shlex.quote(str(run))}"
        fix = f"restore a checkpoint; or, to start from the beginning, run `{command}`, then the same command again"
        raise InputError(what, where=str(run), fix=fix)
    return found


def patience_at(run: Path, job: Job, step: int) -> Patience:
    """Return what the validations up to a step say about the end of a training; see `validation.patience`."""
    found: dict[int, dict[str, float]] = {}
    for event in read_events(run) if job.train.validation.patience else ():
        if event.kind in ("start", "rewind"):
            found = {at: figures for at, figures in found.items() if at <= event.step}
        elif event.kind == "validation" and event.step <= step:
            found[event.step] = {name: math.nan if value is None else value for name, value in event.figures.items()}
        elif event.kind == "end" and not _is_due(job, event):
            found.pop(event.step, None)
    patience = Patience(job.train.validation, best_figure(job.train.checkpoint))
    for at in sorted(found):
        patience.add(found[at])
    return patience


def _is_due(job: Job, end: Event) -> bool:
    """Return whether the job validates where a run ended: not where the run had fewer steps before it was extended."""
    was_last = not end.figures.get("code") and not end.note
    return not was_last or end.step >= job.steps or is_interval_end(job.train.validation, end.step, job)


def is_complete(run: Path, job: Job, step: int) -> bool:
    """Return whether a run that has saved a step is finished: all steps are done, or nothing improves any more."""
    return step >= job.steps or (step > 0 and patience_at(run, job, step).exhausted)


def rewind(run: Path, checkpoints: CheckpointStore, step: int) -> None:
    """Set aside all checkpoints after a step, on the user's request. Requires the run's lock.

    Args:
        run: the run directory.
        checkpoints: the run's checkpoints.
        step: the last step to keep; 0 sets aside all checkpoints.

    Raises:
        ConfigError: there is no checkpoint of that step.
        MachineError: the directory cannot be read or written.
    """
    checkpoints.rewind(step)
    record_event(run, "rewind", step)


def report_damaged(run: Path, folder: Path, problem: str) -> None:
    """Report, as an event and on stderr, that a damaged checkpoint was set aside."""
    note = f"{checkpoint_name(step_of(folder))} is damaged and was set aside: {problem}"
    record_event(run, "damaged", step_of(folder), note=note)
    on_stderr(f"jprep: {note}\n  where: {folder}")


def _all_events(run: Path) -> list[Event]:
    return retry_transient(lambda: read_events(run), run / EVENTS, "repair the disk")
