"""The plots of a report about runs, all runs laid over each other."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Any, Literal, NamedTuple

from jprep.html import plots
from jprep.html.plots import Marker
from jprep.report.runs.history import Curve, RunHistory
from jprep.train.run.events import DEVICE_MEMORY, MEMORY

_MARKERS = 12  # of each plot
_DOTS = 60  # checkpoints of each plot
_PLOTS = 16

Axis = Literal["steps", "hours"]


class Plot(NamedTuple):
    """A plot and its caption."""

    svg: Any
    caption: str


class Across(NamedTuple):
    """A horizontal axis.

    Attributes:
        axis: what it shows.
        label: its label.
        factor: its units in an hour.
    """

    axis: Axis
    label: str = "steps"
    factor: float = 1.0

    def place(self, step: float, hours: float) -> float:
        """Return the place of a moment."""
        return step if self.axis == "steps" else hours * self.factor

    def points(self, curve: Curve, scale: float = 1.0) -> plots.Series:
        """Return a curve's points, with its values multiplied by a scale."""
        across = [self.place(*moment) for moment in zip(curve.steps, curve.hours, strict=True)]
        return across, [value * scale for value in curve.values]


_STEPS = Across("steps")


def _time(runs: Sequence[tuple[str, RunHistory]]) -> Across:
    """Return the time since the start, in a unit that suits the longest run."""
    hours = max(run.hours for _, run in runs)
    units = (("seconds", 3600.0, 0.05), ("minutes", 60.0, 3.0), ("hours", 1.0, 72.0))
    name, factor = next(((name, factor) for name, factor, limit in units if hours < limit), ("days", 1 / 24))
    return Across("hours", f"{name} since the start", factor)


_GIGA = {MEMORY: 1e-9, DEVICE_MEMORY: 1e-9}
_NAMES = {
    "loss": "loss",
    "lr": "learning rate",
    "norm": "norm of the gradient",
    "tokens_per_second": "tokens per second",
    MEMORY: "main memory, GB",
    DEVICE_MEMORY: "accelerator's memory, GB",
}
_ON_TIME = ("tokens_per_second", MEMORY, DEVICE_MEMORY)
"""Figures that depend on the machine are shown over time."""


def run_plots(runs: Sequence[tuple[str, RunHistory]]) -> list[Plot]:
    """Return the plots of some runs with their names: the loss first, then the other figures."""
    time = _time(runs)
    found = [_loss_plot(runs, _STEPS), _loss_plot(runs, time)] if any(run.training for _, run in runs) else []
    trained = _figure_names(run.training for _, run in runs)
    found += [_figure_plot(runs, name, time if name in _ON_TIME else _STEPS) for name in trained]
    measured = _figure_names(run.validation for _, run in runs)
    found += [_validation_plot(runs, name) for name in measured]
    return found[:_PLOTS]


def _figure_names(curves: Iterable[dict[str, Curve]]) -> list[str]:
    """Return the names of figures besides the loss, the known ones first."""
    names = {name for found in curves for name in found} - {"loss"}
    order = list(_NAMES)
    return sorted(names, key=lambda name: (order.index(name) if name in order else len(order), name))


def _loss_plot(runs: Sequence[tuple[str, RunHistory]], across: Across) -> Plot:
    training = {name: across.points(run.training["loss"]) for name, run in runs if "loss" in run.training}
    validation = {name: across.points(run.validation["loss"]) for name, run in runs if "loss" in run.validation}
    title = f"Loss over {across.axis if across.axis == 'steps' else 'time'}"
    if len(runs) > 1:
        return Plot(
            plots.lines(
                training,
                dashed=validation,
                kinds=("training", "validation"),
                title=title,
                x_label=across.label,
                y_label="loss",
            ),
            f"{title}.",
        )
    run, both = runs[0][1], {"training": training, "validation": validation}
    series = {kind: points for kind, found in both.items() for points in found.values()}
    dots, markers = _checkpoints(run, "loss", across), _restarts(run, across)
    svg = plots.lines(series, title=title, x_label=across.label, y_label="loss", dots=dots, markers=markers)
    return Plot(svg, f"{title}.{_explained(dots, markers)}")


def _figure_plot(runs: Sequence[tuple[str, RunHistory]], figure: str, across: Across) -> Plot:
    scale, shown = _GIGA.get(figure, 1.0), _NAMES.get(figure, figure)
    series = {name: across.points(run.training[figure], scale) for name, run in runs if figure in run.training}
    one = runs[0][1] if len(runs) == 1 else None
    dots = _checkpoints(one, figure, across, scale) if one and across.axis == "hours" else {}
    markers = _restarts(one, across) if one else []
    series = {shown: next(iter(series.values()))} if one and series else series
    title = f"{shown[0].upper()}{shown[1:]} over {across.axis if across.axis == 'steps' else 'time'}"
    svg = plots.lines(series, title=title, x_label=across.label, y_label=shown, dots=dots, markers=markers)
    return Plot(svg, f"{title}.{_explained(dots, markers)}")


def _validation_plot(runs: Sequence[tuple[str, RunHistory]], figure: str) -> Plot:
    series = {name: _STEPS.points(run.validation[figure]) for name, run in runs if figure in run.validation}
    title = f"Validation: {figure} over steps"
    return Plot(plots.lines(series, title=title, x_label="steps", y_label=figure, points=True), f"{title}.")


def _checkpoints(run: RunHistory, figure: str, across: Across, scale: float = 1.0) -> dict[str, plots.Series]:
    """Return points on a curve where checkpoints were saved, evenly chosen if there are many."""
    curve = run.training.get(figure)
    steps = sorted(set(run.saved))
    if curve is None or not steps:
        return {}
    chosen = [steps[number * len(steps) // _DOTS] for number in range(_DOTS)] if len(steps) > _DOTS else steps
    places = [min(bisect_left(curve.steps, step), len(curve.steps) - 1) for step in chosen]
    found, values = across.points(curve, scale)
    return {"checkpoint": ([found[place] for place in places], [values[place] for place in places])}


def _restarts(run: RunHistory, across: Across) -> list[Marker]:
    """Return where the run was started again, the first ones if there are many."""
    later = [moment for moment in run.moments if moment.kind == "start"][1:]
    return [Marker(across.place(moment.step, moment.hours)) for moment in later[:_MARKERS]]


def _explained(dots: dict[str, plots.Series], markers: Sequence[Marker]) -> str:
    known = [" Diamonds are checkpoints."] * bool(dots) + [" Dashed lines are restarts."] * bool(markers)
    return "".join(known)
