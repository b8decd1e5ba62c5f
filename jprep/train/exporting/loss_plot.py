"""Plot the loss of a run as SVG. The same values give the same bytes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from xml.sax.saxutils import escape

Curve = tuple[Sequence[int], Sequence[float]]
"""Steps in ascending order, and the loss at each."""

_WIDTH, _HEIGHT = 720, 360
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 44, 34, 44  # margins
_POINTS = 400  # per curve; more are averaged in groups
_TICKS = 6
_COLOURS = ("#1f6fb2", "#d1582b")  # distinguishable by colour-blind readers


class PlotColours(NamedTuple):
    """Colours of a plot.

    Attributes:
        background: behind the plot.
        text: of text.
        grid: of the lines of the grid.
    """

    background: str
    text: str
    grid: str


LIGHT = PlotColours("#ffffff", "#333333", "#dddddd")
SURROUNDING = PlotColours("none", "currentColor", "rgba(128,128,128,.35)")
"""The colours of the page around, light or dark."""


def plot_losses(curves: dict[str, Curve], colours: PlotColours = LIGHT) -> str:
    """Return an SVG plot of losses over steps.

    Args:
        curves: at most two curves by name, at least one of them not empty; empty ones are left out.
        colours: the colours of all but the curves.
    """
    shown = {name: _thinned(curve) for name, curve in curves.items() if curve[0]}
    steps = [step for curve in shown.values() for step in curve[0]]
    losses = [loss for curve in shown.values() for loss in curve[1]]
    axes = _ticks(0, max(steps)), _ticks(min(losses), max(losses))
    return "\n".join(_drawn(shown, *axes, colours)) + "\n"


def _drawn(
    curves: dict[str, tuple[list[float], list[float]]], across: list[float], up: list[float], colours: PlotColours
) -> Iterator[str]:
    size = f'viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" height="{_HEIGHT}"'
    yield f'<svg xmlns="http://www.w3.org/2000/svg" {size}'
    yield f' font-family="sans-serif" font-size="12" fill="{colours.text}" role="img">'
    yield f"<title>Loss over steps: {escape(', '.join(curves))}</title>"
    yield f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="{colours.background}"/>'
    for value in up:
        y = _place(value, up, _HEIGHT - _BOTTOM, _TOP)
        yield f'<path d="M{_LEFT} {y}H{_WIDTH - _RIGHT}" stroke="{colours.grid}"/>'
        yield f'<text x="{_LEFT - 8}" y="{y}" dy="4" text-anchor="end">{value:g}</text>'
    for value in across:
        x = _place(value, across, _LEFT, _WIDTH - _RIGHT)
        yield f'<text x="{x}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{value:,.10g}</text>'
    yield f'<text x="{_WIDTH - _RIGHT}" y="{_HEIGHT - 8}" text-anchor="end">steps</text>'
    for number, (name, (steps, losses)) in enumerate(curves.items()):
        yield from _curve(name, number, steps, losses, (across, up))
    yield "</svg>"


def _curve(
    name: str, number: int, steps: list[float], losses: list[float], axes: tuple[list[float], list[float]]
) -> Iterator[str]:
    colour, x = _COLOURS[number % 2], _LEFT + 150 * number
    places = [
        (_place(step, axes[0], _LEFT, _WIDTH - _RIGHT), _place(loss, axes[1], _HEIGHT - _BOTTOM, _TOP))
        for step, loss in zip(steps, losses, strict=True)
    ]
    points = " ".join(f"{across},{up}" for across, up in places)
    yield f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="1.8" stroke-linejoin="round"/>'
    yield f'<circle cx="{places[-1][0]}" cy="{places[-1][1]}" r="2.5" fill="{colour}"/>'
    yield f'<path d="M{x} 16h22" stroke="{colour}" stroke-width="3"/><text x="{x + 28}" y="20">{escape(name)}</text>'


def _thinned(curve: Curve) -> tuple[list[float], list[float]]:
    steps, losses = curve
    size = -(-len(steps) // _POINTS)
    parts = [slice(start, start + size) for start in range(0, len(steps), size)]
    return [_mean(steps[part]) for part in parts], [_mean(losses[part]) for part in parts]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def _place(value: float, axis: Sequence[float], first: int, last: int) -> str:
    """Return the coordinate of a value between the ends of an axis, to a tenth of a pixel."""
    return f"{first + (last - first) * (value - axis[0]) / (axis[-1] - axis[0]):.1f}"


def _ticks(low: float, high: float) -> list[float]:
    """Return at least two evenly spaced round numbers that cover `low` to `high`."""
    span = max(high - low, abs(high) * 1e-3, 1e-6)
    rough = span / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = power * next(factor for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [number * step for number in range(first, max(last, first + 1) + 1)]
