"""Score the documents of corpora and files, and summarize the scores."""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import numpy as np

from jprep.corpus.quality.inputs import read_text_batches
from jprep.corpus.quality.model import load_model
from jprep.corpus.signals.batch import TextBatch

BINS = 10
_FINE = 1000  # bins from which the quantiles are read
_QUANTILES = (1, 5, 10, 25, 50, 75, 90, 95, 99)
_EXCERPT = 60  # characters of an example


class Example(msgspec.Struct, frozen=True, order=True):
    """A document with its score.

    Attributes:
        score: its score.
        id: its id.
        excerpt: its first characters.
    """

    score: float
    id: str
    excerpt: str


class ScoreSummary(msgspec.Struct, frozen=True):
    """The scores of some documents.

    Attributes:
        documents: number of documents with a score.
        empty: number of documents without one, because they are empty.
        rejects: rows and lines without a document, by step and reason.
        mean: the mean score.
        histogram: number of documents in ten bins of equal width, from 0 to 1.
        quantiles: percent → the score below which so many documents are, within 0.001.
        lowest: examples, the lowest scores first.
        highest: examples, the highest scores first.
    """

    documents: int
    empty: int
    rejects: dict[str, int]
    mean: float
    histogram: list[int]
    quantiles: dict[str, float]
    lowest: list[Example]
    highest: list[Example]


def score_documents(paths: Iterable[Path], model: Path, *, text: str = "text", examples: int = 3) -> ScoreSummary:
    """Score all documents, in bounded memory.

    Args:
        paths: corpora and files, see `jprep.corpus.quality.inputs.read_documents`.
        model: directory of the classifier.
        text: the field with the text, in JSONL and Parquet files.
        examples: how many of the lowest and the highest to return.

    Raises:
        ConfigError: a path or the model does not exist.
        JprepError: one of them is damaged.
    """
    loaded, summary, rejects = load_model(model), _Summary(examples), Counter[str]()
    for batch in read_text_batches(list(paths), text, rejects):
        summary.add(batch, loaded.score(batch))
    return summary.result(rejects)


class _Summary:
    def __init__(self, examples: int) -> None:
        self._examples = examples
        self._fine = np.zeros(_FINE, np.int64)
        self._total, self._empty = 0.0, 0
        self._lowest, self._highest = list[Example](), list[Example]()

    def add(self, batch: TextBatch, scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
        known = np.flatnonzero(~np.isnan(scores))
        self._empty += len(scores) - len(known)
        self._total += float(scores[known].sum())
        self._fine += np.bincount(np.minimum((scores[known] * _FINE).astype(int), _FINE - 1), minlength=_FINE)
        order = known[np.argsort(scores[known], kind="stable")]
        few = self._examples
        indexes = order if len(order) <= 2 * few else [*order[:few], *order[len(order) - few :]]
        ends = [_example(batch, scores, index) for index in indexes]
        self._lowest = heapq.nsmallest(few, [*self._lowest, *ends])
        self._highest = heapq.nlargest(few, [*self._highest, *ends])

    def result(self, rejects: Counter[str]) -> ScoreSummary:
        documents = int(self._fine.sum())
        reached = np.cumsum(self._fine) / max(1, documents)
        quantiles = {f"{each}%": float(np.searchsorted(reached, each / 100)) / _FINE for each in _QUANTILES}
        return ScoreSummary(
            documents,
            self._empty,
            dict(sorted(rejects.items())),
            self._total / max(1, documents),
            self._fine.reshape(BINS, -1).sum(1).tolist(),
            quantiles if documents else {},
            self._lowest,
            self._highest,
        )


def _example(batch: TextBatch, scores: np.ndarray[tuple[int], np.dtype[np.float64]], index: int) -> Example:
    doc = batch.docs[index]
    return Example(float(scores[index]), doc.id, doc.text[:_EXCERPT])
