"""What Jupyter and a Python prompt display of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jprep.errors import JprepError
from jprep.html.notebook import TITLE_LIMIT, Cell, Fragment, columns, display, figures, heading, note, section, table
from jprep.html.text import shortened
from jprep.io.escaping import one_line
from jprep.train.exporting.loss_plot import SURROUNDING, plot_losses

if TYPE_CHECKING:
    from jprep.train.results.run import Run, RunState

_CHECKPOINTS = 6
"""Checkpoints that are shown, the newest ones."""


def describe(run: Run) -> str:
    """Return a run in one line."""
    name, state = shortened(run.job.name, TITLE_LIMIT), run.state
    what = f"{state.condition}, step {state.step:,} of {state.steps:,}"
    return one_line(f"<Run {name!r} in {str(run.folder)!r}: {run.job.train.task} on {run.job.backend}, {what}>")


def run_html(run: Run) -> str:
    """Return job, state, checkpoints, export and losses of a run as HTML."""
    return display(
        heading("Run", run.job.name, run.folder),
        columns(
            section("Job", figures(_job(run))),
            section("State", figures(_state(run))),
            section("Checkpoints", _checkpoints(run)),
        ),
        section("Loss", _plot(run)),
    )


def _job(run: Run) -> dict[str, Cell]:
    job, train = run.job, run.job.train
    return {
        "task": train.task,
        "model": train.model.preset or str(job.model.get("model_type", "")),
        "parameters": job.parameters,
        "backend": job.backend,
        "batch": f"{train.batch:,} × {train.longest:,} tokens",
        "learning rate": f"{train.optimizer.lr:g}, {train.schedule.kind}",
        "seed": train.seed,
    }


def _state(run: Run) -> dict[str, Cell]:
    state: RunState = run.state
    shown: dict[str, Cell] = {"state": state.condition, "step": f"{state.step:,} of {state.steps:,}"}
    if state.reason:
        shown["reason"] = state.reason
    for name, (steps, losses) in run.curves.items():
        if steps:
            shown[f"{name} loss"] = f"{losses[-1]:.4f} at step {steps[-1]:,}"
    return shown | {"export": str(run.export or "none")}


def _checkpoints(run: Run) -> Fragment:
    """Return the newest checkpoints; a display raises no error, so what failed is shown in their place."""
    try:
        found = run.checkpoints
    except JprepError as error:
        return note(f"cannot be shown: {error}")
    left_out = [note(f"and {len(found) - _CHECKPOINTS:,} earlier ones")] if len(found) > _CHECKPOINTS else []
    rows = [(checkpoint.step, checkpoint.folder.name) for checkpoint in found[-_CHECKPOINTS:]]
    shown = table(rows, ("step", "folder")) if rows else note("there are none")
    return Fragment("".join(fragment.markup for fragment in (shown, *left_out)))


def _plot(run: Run) -> Fragment:
    curves = run.curves
    if not any(steps for steps, _ in curves.values()):
        return note("nothing was logged yet")
    plot = plot_losses(curves, SURROUNDING).replace("\n", " ")
    return Fragment(plot.replace("<svg ", '<svg style="max-width:100%;height:auto" ', 1))
