"""How the signals of a corpus are distributed, and what thresholds would drop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from jprep.corpus.config import StepRef
from jprep.corpus.document import Document
from jprep.corpus.processing import document_batches
from jprep.corpus.refilter.request import FilterRequest, KeptSignal, RefilterSteps
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.lookup import find_signal
from jprep.corpus.signals.per_line import of_documents, of_lines
from jprep.corpus.step import Filter, Signal, Threshold, Unit
from jprep.corpus.store import Manifest, read_rows
from jprep.plugins import plugins

if TYPE_CHECKING:
    from numpy.typing import NDArray

SAMPLE = 200_000
"""Documents that are measured at most: every n-th one of a larger corpus."""
_QUANTILES = (0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1)
_BINS = 20
_EXAMPLES = 3
_EXCERPT = 80


class Distribution(msgspec.Struct, frozen=True):
    """The values of a column.

    Attributes:
        column: its name.
        documents: measured documents, or lines, to which it applies.
        quantiles: values by quantile, from 0 to 1.
        edges: edges of the bins of the histogram, from the first to the 99th percentile.
        counts: documents, or lines, in each bin; values outside are in the first and the last one.
    """

    column: str
    documents: int
    quantiles: dict[str, float]
    edges: list[float]
    counts: list[int]


class Example(msgspec.Struct, frozen=True):
    """A document, or line, that a filter would drop: its document's id, the reason, what is outside, its beginning."""

    id: str
    reason: str
    measures: dict[str, float]
    excerpt: str


class Drops(msgspec.Struct, frozen=True):
    """What a filter would drop.

    Attributes:
        filter: its name.
        documents: documents, or lines, that it would drop, of those measured.
        reasons: their number by reason.
        examples: the first of them.
    """

    filter: str
    documents: int
    reasons: dict[str, int]
    examples: list[Example]


class Survey(msgspec.Struct, frozen=True):
    """Distributions and drops.

    Attributes:
        documents: documents of the corpus.
        measured: documents, or lines, that were measured.
        signals: the distribution of each column.
        filters: what each filter would drop alone.
    """

    documents: int
    measured: int
    signals: list[Distribution]
    filters: list[Drops]


def survey(
    folder: Path, manifest: Manifest, names: list[str], filters: list[StepRef], per: Unit = "document"
) -> Survey:
    """Measure the documents of a corpus, or every n-th of a large one, or their lines.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        names: signals and columns to show, kept or not; none shows all that the corpus keeps.
        filters: filters, each judged alone.
        per: what is measured. Each line is measured and judged as if it were a document.

    Raises:
        ConfigError: a step cannot be made.
        DamagedError: a shard is missing or damaged.
    """
    kept = manifest.described_signals if per == "document" else manifest.described_line_signals
    missing = [name for name in names if not _is_kept(name, kept)]
    made: list[StepRef] = [*dict.fromkeys(map(_signal_to_measure, missing))]
    request = FilterRequest(filters, {}, made) if per == "document" else FilterRequest(filters, {}, [], made)
    with closing(RefilterSteps(request, manifest)) as steps:
        measured = [signal for signal in _measured_signals(steps, per) if _is_named(signal, names)]
        found = _survey(folder, manifest, steps, measured, per)
        chosen = {column for signal in measured for column in signal.columns if {column, signal.name} & {*names}}
    shown = [each for each in found.signals if not names or each.column in chosen]
    return msgspec.structs.replace(found, signals=shown)


def _is_named(signal: Signal, names: Sequence[str]) -> bool:
    """Return whether a signal has one of some names, or a column of such a name; without names, any has."""
    return not names or not {signal.name, *signal.columns}.isdisjoint(names)


def _is_kept(name: str, described: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether a signal or a column is among described signals."""
    return any(name == signal["name"] or name in signal["columns"] for signal in described)


def _measured_signals(steps: RefilterSteps, per: Unit) -> list[Signal]:
    """Return what is measured: of lines, also what a corpus keeps of documents only, as far as it needs no model."""
    documents, lines = of_documents(steps.signals), of_lines(steps.signals)
    if per == "document":
        return documents
    known = {column for signal in lines for column in signal.columns}
    others = [signal for signal in documents if not isinstance(signal, KeptSignal) or signal.measurable]
    return [*lines, *(signal for signal in others if not known & {*signal.columns})]


def _signal_to_measure(name: str) -> str:
    """Return a signal: one of this name, in a file of the user, or else with a column of this name."""
    if name in plugins().names("signal") or ":" in name:
        return name
    return find_signal(name, (), "--signal").name


def _survey(folder: Path, manifest: Manifest, steps: RefilterSteps, signals: Sequence[Signal], per: Unit) -> Survey:
    total = sum(part.rows for part in manifest.parts)
    judges = steps.filters(manifest.sources[0]["name"]) if manifest.sources else []
    values: dict[str, list[NDArray[np.float32]]] = {column: [] for signal in signals for column in signal.columns}
    found = [Drops(step.label, 0, {}, []) for step in judges]
    measured = 0
    for docs in _batches(folder, manifest, max(1, -(-total // SAMPLE))):
        steps.provide(docs)
        batch = docs if per == "document" else docs.per_line
        measured += len(batch)
        for signal in signals:
            for column, each in batch.measured(signal).items():
                values[column].append(each.astype(np.float32))
        found = [_judged(drops, step, batch) for drops, step in zip(found, judges, strict=True)]
    return Survey(total, measured, [_distribution(name, each) for name, each in values.items()], found)


def _batches(folder: Path, manifest: Manifest, stride: int) -> Iterator[TextBatch]:
    rows = (doc for part in manifest.parts for doc in read_rows(folder, part, Document))
    for items in document_batches(islice(rows, 0, None, stride)):
        yield TextBatch([item for item in items if isinstance(item, Document)])


def _judged(drops: Drops, step: Filter, batch: TextBatch) -> Drops:
    """Return what a filter would drop, with the documents of one more batch."""
    verdicts = step.judge_all(batch)
    dropped = [index for index, verdict in enumerate(verdicts) if not verdict.keep]
    reasons = Counter(drops.reasons) + Counter(verdicts[index].reason for index in dropped)
    examples = [
        _example(batch.without(set(range(len(batch))) - {index}), verdicts[index].reason, step)
        for index in dropped[: _EXAMPLES - len(drops.examples)]
    ]
    return Drops(drops.filter, drops.documents + len(dropped), dict(reasons), [*drops.examples, *examples])


def _example(one: TextBatch, reason: str, step: Filter) -> Example:
    """Return the document of a batch of one, which may have kept signals that cannot be measured here."""
    doc, limits, measures = one.docs[0], step.thresholds(), step.measure_all(one)[0]
    failed = {name: value for name, value in measures.items() if _is_outside(value, limits.get(name, (None, None)))}
    return Example(doc.id, reason, failed, doc.text[:_EXCERPT])


def _is_outside(value: float, limits: Threshold) -> bool:
    low, high = limits
    return (low is not None and value < low) or (high is not None and value > high)


def _distribution(column: str, parts: list[NDArray[np.float32]]) -> Distribution:
    values = np.concatenate([np.zeros(0, np.float32), *parts])
    values = values[np.isfinite(values)].astype(np.float64)
    if not len(values):
        return Distribution(column, 0, {}, [], [])
    points = np.quantile(values, _QUANTILES)
    low, high = points[1], points[-2]
    inside = np.clip(values, low, high)
    counts, edges = np.histogram(inside, _BINS, (low, high if high > low else low + 1))
    named = {f"{name:g}": float(point) for name, point in zip(_QUANTILES, points, strict=True)}
    return Distribution(column, len(values), named, edges.tolist(), counts.tolist())
