"""Plots by matplotlib as SVG inside a page, in the page's colours. The same data gives the same bytes."""

from __future__ import annotations

import io
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.display_width import is_wide
from jprep.html.text import html, visible
from jprep.libraries import import_library

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH = 5.0  # inches: labels of 9 points are then legible on a phone
_LABEL = 24  # characters of a name on an axis or in a legend
_FONT = 9  # points
_SERIES = 8
_COLOURS = {"#0a0a01": "--text", "#0a0a02": "--muted", "#0a0a03": "--line", "#0a0a04": "--bad"} | {
    f"#0b0b{number:02x}": f"--series-{number}" for number in range(1, _SERIES + 1)
}
"""Colours that matplotlib draws with, and the CSS variables that replace them."""
_TEXT, _MUTED, _LINE, _BAD = list(_COLOURS)[:4]

Series = tuple[Sequence[float], Sequence[float]]
"""Abscissas and ordinates of a curve, equally long."""

_MARKS = ("", "s", "^", "v", "D", "P")
"""Markers of curves 1 to 8, 9 to 16 and so on, which have the same eight colours."""


class Marker(NamedTuple):
    """A vertical line at a value, such as a threshold or a restart."""

    value: float
    label: str = ""


def histogram(
    edges: Sequence[float],
    counts: Sequence[float],
    *,
    title: str,
    x_label: str,
    y_label: str = "documents",
    thresholds: Sequence[Marker] = (),
    log_x: bool = False,
    log_y: bool = False,
) -> Markup:
    """Return a histogram.

    Args:
        edges: boundaries of the bins, one more than `counts`.
        counts: height of each bin.
        title: description of the plot for readers who do not see it.
        x_label: what is measured, with its unit.
        y_label: what is counted.
        thresholds: limits to draw.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is logarithmic.
    """
    with _figure(title, 1.9) as (axes, drawn):
        axes.stairs(counts, edges, fill=True, color=_series(0), alpha=0.85)
        if not log_y:
            axes.yaxis.get_major_locator().set_params(integer=True)
        _scale(axes, log_x, log_y)
        _draw_markers(axes, thresholds)
        _label(axes, x_label, y_label)
    return drawn[0]


def bars(names: Sequence[str], values: Sequence[float], *, title: str, x_label: str, width: float = _WIDTH) -> Markup:
    """Return horizontal bars, the first at the top, each with its value."""
    with _figure(title, 0.6 + 0.25 * len(names), width) as (axes, drawn):
        axes.barh(range(len(names)), values, color=_series(0), alpha=0.85, height=0.7)
        axes.set_yticks(range(len(names)), [_name(name) for name in names])
        axes.invert_yaxis()
        for row, value in enumerate(values):
            place = {"xytext": (4, 0), "textcoords": "offset points", "va": "center"}
            axes.annotate(_number(value), (value, row), color=_MUTED, fontsize=_FONT, **place)
        axes.margins(x=0.15)
        _label(axes, x_label, "")
        axes.grid(visible=False)
    return drawn[0]


def lines(
    series: Mapping[str, Series],
    *,
    title: str,
    x_label: str,
    y_label: str,
    dashed: Mapping[str, Series] = {},
    kinds: tuple[str, str] = ("", ""),
    markers: Sequence[Marker] = (),
    dots: Mapping[str, Series] = {},
    points: bool = False,
    log_x: bool = False,
    log_y: bool = False,
) -> Markup:
    """Return curves over each other, with a legend below the axes if there are several.

    Args:
        series: the curves by name.
        title: description of the plot for readers who do not see it.
        x_label: the abscissa, with its unit.
        y_label: the ordinate, with its unit.
        dashed: second curves, drawn dashed in the colour of the first curve of their name.
        kinds: what the first and the second curves are, for the legend.
        markers: vertical lines, for example at restarts.
        dots: points without a curve, by name, for example checkpoints.
        points: whether each value has a point.
        log_x: whether the horizontal axis is logarithmic.
        log_y: whether the vertical axis is logarithmic.
    """
    names = list(dict.fromkeys([*series, *dashed]))
    with _figure(title, 2.3) as (axes, drawn):
        for curves, style in ((series, "-"), (dashed, "--")):
            for name, (across, up) in curves.items():
                look = _curve_style(names.index(name), len(across), points=points)
                axes.plot(across, up, linestyle=style, **look)
        for across, up in dots.values():
            axes.plot(across, up, "D", color=_TEXT, markersize=3.5)
        _scale(axes, log_x, log_y)
        _draw_markers(axes, markers)
        _label(axes, x_label, y_label)
        _add_legend(axes, names, dots, kinds if dashed and any(kinds) else ())
    return drawn[0]


def intervals(
    names: Sequence[str],
    centres: Sequence[float],
    ends: Sequence[tuple[float, float]],
    *,
    title: str,
    x_label: str,
    zero: bool = False,
) -> Markup:
    """Return estimates with their confidence intervals as (low, high), the first at the top; with a line at `zero`."""
    with _figure(title, 0.6 + 0.3 * len(names)) as (axes, drawn):
        for row, (centre, (low, high)) in enumerate(zip(centres, ends, strict=True)):
            axes.plot([low, high], [row, row], color=_series(row), linewidth=2)
            axes.plot([centre], [row], "o", color=_series(row), markersize=6)
        if zero:
            axes.axvline(0, color=_MUTED, linewidth=1)
        axes.set_yticks(range(len(names)), [_name(name) for name in names])
        axes.set_ylim(len(names) - 0.5, -0.5)
        _label(axes, x_label, "")
    return drawn[0]


def _series(number: int) -> str:
    return list(_COLOURS)[4 + number % _SERIES]


def _curve_style(number: int, length: int, *, points: bool = False) -> dict[str, Any]:
    """Return how a curve looks: once all colours are used, its marks tell it from earlier ones of its colour."""
    mark = _MARKS[number // _SERIES % len(_MARKS)] or ("o" if points or length == 1 else "")
    every = 1 if points else max(1, length // 8)
    return {"color": _series(number), "linewidth": 1.5, "marker": mark, "markersize": 3, "markevery": every}


def _add_legend(axes: Any, names: Sequence[str], dots: Iterable[str], kinds: Sequence[str]) -> None:
    """Add a legend below the axes, by whose height the figure grows."""
    from matplotlib.lines import Line2D

    entries = [Line2D([], [], label=_curve_name(name), **_curve_style(at, 2)) for at, name in enumerate(names)]
    styles: tuple[dict[str, Any], ...] = ({"linestyle": "-"}, {"linestyle": "--"})
    entries += [
        Line2D([], [], label=_name(kind), color=_TEXT, linewidth=1.5, **style)
        for kind, style in zip(kinds, styles, strict=False)
    ]
    entries += [Line2D([], [], label=_name(name), color=_TEXT, marker="D", markersize=3.5, ls="") for name in dots]
    if len(entries) > 1:
        _place_legend(axes.figure, entries)


def _place_legend(figure: Any, entries: Sequence[Any]) -> None:
    """Place a legend below all else in as many columns as fit, and make the figure higher by it."""
    # matplotlib measures characters that its font lacks by a box of 0.6 em; in the reader's font they are 1 em wide
    wide = 0.4 * max(sum(map(is_wide, entry.get_label())) for entry in entries)
    style = {"frameon": False, "labelcolor": _TEXT, "fontsize": _FONT, "columnspacing": 1.5 + wide}
    balanced = {math.ceil(len(entries) / math.ceil(len(entries) / columns)) for columns in range(1, 5)}
    for columns in sorted(balanced, reverse=True):
        legend = figure.legend(handles=entries, loc="outside lower center", ncols=columns, **style)
        if columns == 1 or legend.get_window_extent().width + wide * _FONT * figure.dpi / 72 <= figure.bbox.width:
            break
        legend.remove()
    figure.set_figheight(figure.get_figheight() + legend.get_window_extent().height / figure.dpi)


def _name(text: str) -> str:
    """Return a name of bounded length; its end is kept, since names of runs often differ only there."""
    shown = text if len(text) <= _LABEL else f"{text[: _LABEL // 2 - 1]}…{text[-_LABEL // 2 :]}"
    return visible(shown).replace("\n", " ")


def _curve_name(text: str) -> str:
    """Return a name for a legend; matplotlib would leave out one that begins with an underscore."""
    name = _name(text)
    return f"\u2060{name}" if name.startswith("_") else name


def _scale(axes: Any, log_x: bool, log_y: bool) -> None:
    if log_x:
        axes.set_xscale("log")
    if log_y:
        axes.set_yscale("log")
    _format_numbers(axes.yaxis)


def _draw_markers(axes: Any, markers: Sequence[Marker]) -> None:
    for marker in markers:
        axes.axvline(marker.value, color=_BAD, linewidth=1.2, linestyle="--")
        if marker.label:
            place = (marker.value, 1.0)
            axes.annotate(
                f" {_name(marker.label)}",
                place,
                xycoords=("data", "axes fraction"),
                va="bottom",
                color=_BAD,
                fontsize=_FONT,
            )


def _format_numbers(axis: Any) -> None:
    axis.set_major_formatter(lambda value, _: _short(value))
    axis.set_minor_formatter(lambda value, _: _short(value) if _needs_minor_labels(axis, value) else "")


def _needs_minor_labels(axis: Any, value: float) -> bool:
    """Return whether to label a tick between powers of ten: where at most one of them is on the axis, 2 and 5 are."""
    low, high = axis.get_view_interval()
    if axis.get_scale() != "log" or math.floor(math.log10(high)) - math.ceil(math.log10(low)) >= 1:
        return False
    return f"{value:.0e}"[0] in "25"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _short(value: float) -> str:
    """Return a number for an axis: 2,500, 3 M, 1.5 G."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if abs(value) >= size:
            return f"{value / size:.4g} {letter}"
    return _number(value)


def _label(axes: Any, x_label: str, y_label: str) -> None:
    axes.set_xlabel(_name(x_label), color=_TEXT)
    axes.set_ylabel(_name(y_label), color=_TEXT)
    axes.tick_params(colors=_MUTED, labelsize=_FONT)
    _format_numbers(axes.xaxis)
    axes.grid(color=_LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(_LINE)


@contextmanager
def _figure(title: str, height: float, width: float = _WIDTH) -> Iterator[tuple[Any, list[Markup]]]:
    """Give axes to draw on, and a list that holds the SVG at the end of the block."""
    matplotlib = import_library("matplotlib", "plots need matplotlib", "'jprep[report]'")
    from markupsafe import Markup
    from matplotlib.figure import Figure

    settings = {"svg.fonttype": "none", "svg.hashsalt": visible(title), "text.parse_math": False}
    drawn: list[Markup] = []
    with matplotlib.rc_context(settings), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")  # the reader's browser chooses the font, and has the glyphs
        warnings.filterwarnings("ignore", message="constrained_layout not applied")  # long labels, which are cut
        figure = Figure(figsize=(width, height), layout="constrained")
        figure.patch.set_visible(False)
        axes = figure.subplots()
        axes.patch.set_visible(False)
        yield axes, drawn
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    drawn.append(Markup(_inlined(out.getvalue(), title)))


_ID = re.compile(r' id="([^"]*)"')
_REFERENCE = re.compile(r'(?:url\(#|href="#)([^)"]+)')
_SIZE = re.compile(r'<svg [^>]*?viewBox="([^"]*)"[^>]*>')


def _inlined(svg: str, title: str) -> str:
    """Return a drawing as an element of a page: without prolog, metadata and unused ids, in the page's colours."""
    body = re.sub(r"<metadata>.*?</metadata>", "", svg[svg.index("<svg") :], flags=re.DOTALL)
    used = set(_REFERENCE.findall(body))
    body = _ID.sub(lambda found: found[0] if found[1] in used else "", body)
    for colour, variable in _COLOURS.items():
        body = body.replace(colour, f"var({variable})")
    head = f'<svg class="plot" role="img" aria-label="{html(title)}" xmlns="http://www.w3.org/2000/svg"'
    links = ' xmlns:xlink="http://www.w3.org/1999/xlink"'
    body = _SIZE.sub(lambda found: f'{head}{links} viewBox="{found[1]}">', body, count=1)
    return re.sub(r"\n\s*", "\n", body)
