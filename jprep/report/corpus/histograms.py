"""Plots of a corpus: sources, lengths, kinds of characters, and what the filters measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jprep.corpus.step import Threshold
from jprep.html.plots import Marker, bars, histogram
from jprep.report.corpus.document_scan import DocumentScan
from jprep.report.corpus.measures import SCRIPTS, Measured

if TYPE_CHECKING:
    from markupsafe import Markup

_WIDTH = 4.8  # inches: legible on a phone, and two beside each other on a large screen
_BINS = 40
_SOURCES = 30  # bars
_MEASURES = 40  # plots
_SCRIPT_NAMES = {
    "kana": "kana", "kanji": "kanji", "latin": "Latin letters", "digit": "digits", "punctuation": "punctuation",
    "symbol": "symbols and emoji", "other": "other scripts",
}  # fmt: skip
_LABELS = {
    "characters": ("length", "characters"),
    "sentences": ("sentences", "sentences"),
    "japanese_share": ("kana and kanji", "share of characters"),
    "kana_share": ("kana", "share of characters"),
    "symbol_share": ("symbols and emoji", "share of characters"),
    "punctuation_share": ("punctuation", "share of characters"),
    "digit_share": ("digits", "share of characters"),
    "url_share": ("characters in URLs", "share of characters"),
    "urls_per_1000": ("URLs in 1,000 characters", "URLs"),
    "sentence_ends": ("lines that end a sentence", "lines"),
    "sentence_end_share": ("share of lines that end a sentence", "share of lines"),
    "repeated_line_share": ("repeated lines", "share of lines"),
    "repeated_character_share": ("characters in repeated lines", "share of characters"),
}
"""Title and unit of a measure of the built-in filters."""


class Plot(NamedTuple):
    """A plot with its caption and its figures.

    Attributes:
        name: name of what is shown.
        svg: the drawing.
        caption: what it shows, in a sentence.
        figures: the same as numbers.
    """

    name: str
    svg: Markup
    caption: str
    figures: dict[str, Any]


def source_plot(scan: DocumentScan) -> Plot:
    """Return the characters by source."""
    ordered = scan.characters.most_common()
    shown = [*ordered[:_SOURCES]]
    if rest := sum(count for _, count in ordered[_SOURCES:]):
        shown.append((f"{len(ordered) - _SOURCES} others", rest))
    names, values = [name for name, _ in shown], [count for _, count in shown]
    figures = {name: {"documents": scan.documents[name], "characters": count} for name, count in ordered}
    return Plot(
        "sources", bars(names, values, title="Characters by source", x_label="characters", width=_WIDTH), "", figures
    )


def length_plot(scan: DocumentScan, limits: Sequence[Threshold]) -> Plot:
    """Return the histogram of the lengths of all documents, with the limits of the filter `length`."""
    edges, counts = scan.lengths.bins() if scan.documents else ([1.0, 10.0], [0])
    quantiles = {f"{share:.0%}": scan.lengths.quantile(share) for share in (0.1, 0.5, 0.9, 0.99)}
    svg = histogram(
        edges,
        counts,
        title="Length of the documents",
        x_label="characters",
        thresholds=_markers(limits),
        log_x=True,
    )
    caption = (
        f"Half of the documents have at most {quantiles['50%']:,} characters, nine in ten at most"
        f" {quantiles['90%']:,}; the longest has {scan.lengths.longest:,}."
    )
    figures = {"quantiles": quantiles, "longest": scan.lengths.longest, "edges": edges, "counts": counts}
    return Plot("length", svg, caption, figures)


def script_plots(scan: DocumentScan) -> list[Plot]:
    """Return the kinds of characters of the sample, and histograms of the documents' shares."""
    measures = scan.measures
    total = sum(measures.characters.values())
    if not total:
        return []
    shares = {_SCRIPT_NAMES[name]: measures.characters[name] / total for name in SCRIPTS}
    values = [100 * share for share in shares.values()]
    whole = bars(
        list(shares),
        [round(value, 2) for value in values],
        title="Kinds of characters",
        x_label="% of characters",
        width=_WIDTH,
    )
    plots = [Plot("all characters", whole, "", shares)]
    for name in ("kana", "kanji", "latin"):
        edges, counts = _bins(measures.shares[name], share=True)
        svg = histogram(edges, counts, title=f"Share of {_SCRIPT_NAMES[name]}", x_label="share of characters")
        plots.append(Plot(_SCRIPT_NAMES[name], svg, "", {"edges": edges, "counts": counts}))
    return plots


def measure_plots(measured: Sequence[Measured]) -> list[Plot]:
    """Return a histogram of each measure of a filter, with its thresholds."""
    return [_measure_plot(each) for each in measured[:_MEASURES] if len(each.values) and not _is_length(each)]


def length_limits(measured: Sequence[Measured]) -> list[Threshold]:
    """Return the limits of the filter `length`, which the plot of all lengths shows."""
    return [limit for each in measured if _is_length(each) for limit in each.thresholds]


def _is_length(measured: Measured) -> bool:
    return (measured.step, measured.name) == ("length", "characters")


def _measure_plot(measured: Measured) -> Plot:
    title, unit = _LABELS.get(measured.name, (measured.name, measured.name))
    edges, counts = _bins(measured.values, share=measured.name.endswith("share"))
    name = f"{measured.step}: {title}"
    svg = histogram(
        edges,
        counts,
        title=name,
        x_label=unit,
        thresholds=_markers(measured.thresholds),
        log_y=_is_steep(counts),
    )
    limits = "; ".join(filter(None, map(_limit_text, measured.thresholds))) or "no limit"
    figures = {"edges": edges, "counts": counts, "thresholds": measured.thresholds}
    return Plot(name, svg, f"The filter keeps {limits}." if limits != "no limit" else "No limit is set.", figures)


def _limit_text(limit: Threshold) -> str:
    low, high = limit
    parts = [f"at least {low:,.6g}" if low is not None else "", f"at most {high:,.6g}" if high is not None else ""]
    return " and ".join(filter(None, parts))


def _markers(limits: Sequence[Threshold]) -> list[Marker]:
    found = [
        Marker(value, f"{name} {value:,.6g}")
        for limit in limits
        for name, value in zip(("min", "max"), limit, strict=True)
        if value is not None
    ]
    return list(dict.fromkeys(found))


def _is_steep(counts: Sequence[int]) -> bool:
    """Return whether nearly all documents are in one bin, so that the others would not be seen."""
    return max(counts, default=0) > 0.9 * sum(counts) and sum(map(bool, counts)) > 1


def _bins(values: Sequence[float], *, share: bool) -> tuple[list[float], list[int]]:
    """Return edges and counts: of 0 to 1 for shares, else from the smallest to the largest value."""
    data = np.asarray(values, dtype=np.float64)
    data = data[np.isfinite(data)]
    span = (0.0, 1.0) if share else (float(data.min(initial=0)), float(data.max(initial=1)))
    counts, edges = np.histogram(data, bins=_BINS, range=span)
    return edges.tolist(), counts.tolist()
