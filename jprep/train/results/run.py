"""A run to look at: its job, state, metrics, checkpoints and export."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from jprep.errors import ConfigError
from jprep.io.lock import is_locked
from jprep.train.evaluation.records import Evaluation, read_evaluations
from jprep.train.exporting import export_of
from jprep.train.run.checkpoints import Checkpoint
from jprep.train.run.directory import JOB, LOCK, checkpoints_of, read_job
from jprep.train.run.events import Event, EventKind, last_end, metric_curve, metric_rows, read_events
from jprep.train.run.status import RunStatus

if TYPE_CHECKING:
    import pyarrow as pa

    from jprep.train.exporting.loss_plot import Curve

Condition = Literal["finished", "failed", "running", "interrupted", "not started"]


class RunState(NamedTuple):
    """The state of a run.

    Attributes:
        condition: `finished`, all steps are done, or nothing improved any more; `failed`, it ended with an error;
            `running`, a process trains it; `interrupted`, it was stopped or killed and can be resumed; `not started`.
        step: the number of updates done.
        steps: those of the whole job.
        reason: the error that it ended with, or why it ended before its last step; "" without either.
    """

    condition: Condition
    step: int
    steps: int
    reason: str = ""


def load_run(folder: str | Path) -> Run:
    """Load a run directory; the run may be training meanwhile.

        run = jprep.load_run("work/jawiki/runs/torch")
        run.losses().to_pandas().plot(x="step", y="loss")

    Args:
        folder: output directory of `jprep train`; of a training of several folds, the directory of one fold.

    Raises:
        ConfigError: there is no run, its job.json is damaged, or there is one for each fold.
        MismatchError: another version of jprep wrote it.
    """
    folds = sorted(Path(folder).glob(f"fold-*/{JOB}"))
    if folds and not (Path(folder) / JOB).exists():
        fix = f"load one of them: jprep.load_run({str(folds[0].parent)!r})"
        raise ConfigError(f"there are runs of {len(folds)} folds", where=str(folder), fix=fix)
    return Run(folder)


class Run:
    """A run. What it returns is read anew from the run directory at each call, except for the job.

    Args:
        folder: the run directory.

    Attributes:
        folder: the run directory.
        job: the job.

    Raises:
        ConfigError: there is no run, or its job.json is damaged.
    """

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.job = read_job(self.folder)

    def __repr__(self) -> str:
        from jprep.train.results.display import describe

        return describe(self)

    def _repr_html_(self) -> str:
        """Return what Jupyter displays: job, state, checkpoints, export, and the loss over steps."""
        from jprep.train.results.display import run_html

        return run_html(self)

    @property
    def events(self) -> list[Event]:
        """All events so far, in order."""
        return read_events(self.folder)

    @property
    def state(self) -> RunState:
        """The state of the run."""
        events, steps = self.events, self.job.steps
        status, end = RunStatus(), last_end(events)
        status.add(events)
        if end and not end.figures.get("code"):
            return RunState("finished", end.step, steps, end.note)
        if is_locked(self.folder / LOCK):
            return RunState("running", status.step, steps)
        if end:
            return RunState("failed", status.step, steps, end.note)
        return RunState("interrupted" if events else "not started", status.step, steps)

    def losses(self) -> pa.Table:
        """Return what was logged in training: columns `step`, `loss`, and the other metrics by name.

        A resumed run logs some steps twice; the last value counts. Values that are not finite, or were not logged at a
        step, are null.
        """
        return self._table("log")

    def validation(self) -> pa.Table:
        """Return the validation metrics: columns `step`, `loss`, and the others by name; see `losses`."""
        return self._table("validation")

    @property
    def evaluations(self) -> list[Evaluation]:
        """The figures of `jprep evaluate`, by step."""
        return read_evaluations(self.folder, self.job)

    @property
    def curves(self) -> dict[str, Curve]:
        """The training and the validation loss: steps in ascending order, and the value at each."""
        events = self.events
        return {"training": metric_curve(events), "validation": metric_curve(events, "validation")}

    @property
    def checkpoints(self) -> list[Checkpoint]:
        """The committed checkpoints, by step, with `folder` and `step`. Their files are not read."""
        return checkpoints_of(self.folder, self.job).committed()

    @property
    def export(self) -> Path | None:
        """The directory of the exported model; None if there is none."""
        return export_of(self.folder)

    def _table(self, kind: EventKind) -> pa.Table:
        import pyarrow as pa

        rows = metric_rows(self.events, kind)
        names = list(dict.fromkeys(["loss", *(name for figures in rows.values() for name in figures)]))
        values = {name: pa.array([figures.get(name) for figures in rows.values()], pa.float64()) for name in names}
        return pa.table({"step": pa.array(rows, pa.int64()), **values})
