"""Signals about the sentences of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.signals.character_kinds import table_of
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELLIPSES, _DOTS, _AFTER = "…‥⋯", ".．。・･", "。．！？!?」』）)"
_MARKS_AFTER = 3


class SentenceSignals(Signal):
    """Sentences, as the splitter of the recipe marks them.

    Columns: `mean_sentence` and `longest_sentence`, in characters; `ellipsis_share`, the fraction of sentences that end
    in … or ‥ or three dots, with or without a mark after them. None applies to a document without a sentence.
    """

    name = "sentences"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("mean_sentence", "longest_sentence", "ellipsis_share")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        docs, lengths = batch.sentence_docs, batch.sentence_lengths
        number = batch.counts(docs)
        longest = np.full(len(batch), np.nan)
        longest[number > 0] = np.maximum.reduceat(lengths, _firsts(docs)) if len(docs) else 0
        return {
            "mean_sentence": share(batch.counts(docs, lengths), number),
            "longest_sentence": longest,
            "ellipsis_share": share(batch.counts(docs[_end_in_ellipsis(batch)]), number),
        }


def _firsts(docs: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where each run of equal numbers begins."""
    return np.flatnonzero(np.append(True, docs[1:] != docs[:-1]))


def _end_in_ellipsis(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each sentence ends in an ellipsis, shape [sentences]; up to `_MARKS_AFTER` marks may follow it."""
    starts, last = batch.sentence_starts, batch.sentence_starts + batch.sentence_lengths - 1
    found = np.zeros(len(starts), bool)
    for step in range(_MARKS_AFTER + 1):
        end = batch.codes[np.maximum(last, 0)]
        likely = np.flatnonzero(table_of(_ELLIPSES + _DOTS)[end])
        found[likely] |= _ellipsis_at(batch.codes, starts[likely], last[likely])
        if step < _MARKS_AFTER:
            last = last - table_of(_AFTER)[end]
    return found


def _ellipsis_at(codes: NDArray[np.uint32], starts: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether an ellipsis ends at each place, and begins after the start of its sentence."""
    dots = last - starts >= 2
    for back in range(3):
        dots = dots & table_of(_DOTS)[codes[np.maximum(last - back, 0)]]
    found: NDArray[np.bool_] = ((last >= starts) & table_of(_ELLIPSES)[codes[np.maximum(last, 0)]]) | dots
    return found
