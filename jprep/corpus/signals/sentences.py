"""Signals about the sentences of a document."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ELLIPSES = np.array([ord(mark) for mark in "…‥⋯"], np.uint32)
_DOTS = np.array([ord(mark) for mark in ".．。・･"], np.uint32)
_MARKS_AFTER = 3
_AFTER = np.array([ord(mark) for mark in "。．！？!?」』）)"], np.uint32)


class SentenceSignals(Signal):
    """Sentences, as the splitter of the recipe marks them.

    Columns: `mean_sentence` and `longest_sentence`, in characters; `ellipsis_share`, the fraction of sentences that end
    in … or ‥ or three dots, with or without a mark behind them. None applies to a document without a sentence.
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
        longest = np.zeros(len(batch))
        np.maximum.at(longest, docs, lengths)
        return {
            "mean_sentence": share(batch.counts(docs, lengths), number),
            "longest_sentence": np.where(number > 0, longest, np.nan),
            "ellipsis_share": share(batch.counts(docs[_end_in_ellipsis(batch)]), number),
        }


def _end_in_ellipsis(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each sentence ends in an ellipsis, shape [sentences]; up to `_MARKS_AFTER` marks may follow it."""
    starts, last = batch.sentence_starts, batch.sentence_starts + batch.sentence_lengths - 1
    found = _ellipsis_at(batch.codes, starts, last)
    for _ in range(_MARKS_AFTER):
        last = last - np.isin(batch.codes[np.maximum(last, 0)], _AFTER)
        found |= _ellipsis_at(batch.codes, starts, last)
    return found


def _ellipsis_at(codes: NDArray[np.uint32], starts: NDArray[np.int64], last: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether an ellipsis ends at each place, and begins after the start of its sentence."""
    end, before, third = (codes[np.maximum(last - back, 0)] for back in range(3))
    dots = (last - starts >= 2) & np.isin(end, _DOTS) & np.isin(before, _DOTS) & np.isin(third, _DOTS)
    found: NDArray[np.bool_] = ((last >= starts) & np.isin(end, _ELLIPSES)) | dots
    return found
