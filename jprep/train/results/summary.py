"""Short summaries of runs: state, step, figures, newest checkpoint and start command, for `jprep status`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.job.best import is_best_kept
from jprep.train.launcher.start_command import StartCommand, read_command
from jprep.train.results.run import Condition, Run
from jprep.train.run.data_lock import DATA_LOCK
from jprep.train.run.directory import HEARTBEAT, JOB
from jprep.train.run.events import EVENTS, metric_curve, metric_rows

_PLACES = ("", "fold-*/", "runs/*/", "runs/*/fold-*/", "*/", "*/fold-*/", "*/runs/*/", "*/runs/*/fold-*/")
"""Where runs are, relative to a run, a set of folds, a recipe's folder, a folder of runs or one of recipes' folders."""


class Figures(msgspec.Struct, frozen=True):
    """Finite metrics that were logged at a step.

    Attributes:
        step: the number of updates done.
        values: metrics by name.
    """

    step: int
    values: dict[str, float]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A run.

    Attributes:
        path: the run directory.
        name: the run's name; "" if its job cannot be read.
        state: see `RunState`; `unknown` if a file of the run cannot be used.
        reason: the error that it ended with, why it ended early, or why the state is unknown; "" without one.
        step: the number of updates done.
        steps: those of the whole job.
        loss: the training loss logged last; None if none was logged.
        validation: the last validation metrics; None if none were measured.
        checkpoint: the folder of the newest checkpoint, relative to the run directory; "" if there is none.
        best_kept: whether the run ended early and keeps its best checkpoint, which is the one to export.
        last_sign: when the worker last showed that it is alive, in seconds since 1970; None if it never did.
        command: the command that last started it; None if it is not known.
    """

    path: str
    name: str = ""
    state: Condition | Literal["unknown"] = "unknown"
    reason: str = ""
    step: int = 0
    steps: int = 0
    loss: Figures | None = None
    validation: Figures | None = None
    checkpoint: str = ""
    best_kept: bool = False
    last_sign: float | None = None
    command: StartCommand | None = None


def find_runs(folder: Path) -> list[Path]:
    """Return the runs in a folder: a run, a set of folds, a folder of runs, or the folder of one or several recipes."""
    found = {path.parent for place in _PLACES for path in folder.glob(f"{place}{JOB}")}
    return sorted(run for run in found if any((run / name).exists() for name in (DATA_LOCK, EVENTS)))


def summarize_run(folder: Path) -> RunSummary:
    """Return the summary of a run, which may be training meanwhile. Nothing is changed, and no error is raised."""
    try:
        return _summary(Run(folder))
    except JprepError as error:
        return RunSummary(path=str(folder), reason=error.what, command=_command(folder))
    except OSError as error:
        return RunSummary(path=str(folder), reason=error.strerror or str(error))


def _summary(run: Run) -> RunSummary:
    state, checkpoints, events = run.state, run.checkpoints, run.events
    steps, losses = metric_curve(events)
    measured = metric_rows(events, "validation")
    saved = checkpoints[-1] if checkpoints else None
    return RunSummary(
        path=str(run.folder),
        name=run.job.name,
        state=state.condition,
        reason=state.reason,
        step=max(state.step, saved.step if saved else 0),
        steps=state.steps,
        loss=Figures(steps[-1], {"loss": losses[-1]}) if steps else None,
        validation=Figures(*list(measured.items())[-1]) if measured else None,
        checkpoint=saved.folder.relative_to(run.folder).as_posix() if saved else "",
        best_kept=state.condition == "finished" and is_best_kept(run.job.train, state.step, state.steps),
        last_sign=_last_sign(run.folder),
        command=_command(run.folder),
    )


def _last_sign(folder: Path) -> float | None:
    """Return the newest modification time of the heartbeat and the events, as the supervisor judges a worker."""
    found = [(folder / name).stat().st_mtime for name in (HEARTBEAT, EVENTS) if (folder / name).exists()]
    return max(found, default=None)


def _command(folder: Path) -> StartCommand | None:
    try:
        return read_command(folder)
    except ConfigError:  # a worker or a Python program started it
        return None
