"""Signals of Swallow Corpus Version 1, by the definitions of its quality.py. Costly: duplicates and n-grams."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.published.ngrams import count_ngrams
from jprep.corpus.signals.published.swallow import SENTENCE_ENDS, find_sentences, ratio
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

_SURPLUS_MARKS = re.compile(rf"(?<![^{SENTENCE_ENDS}\n])[{SENTENCE_ENDS}]+")
"""Marks that belong to no sentence: at the beginning of a line, and after another mark."""
_TOP = range(2, 5)
_DUPLICATE = range(5, 11)


class SwallowDuplicates(Signal):
    """Lines and sentences that occurred before in the document, as fractions of all of them and of their characters.

    Empty lines are lines; marks that belong to no sentence are left out of both. A share of nothing is 0.
    """

    name = "swallow_duplicates"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        names = ("line", "line_character", "sentence", "sentence_character")
        return tuple(f"swallow_duplicate_{name}_share" for name in names)

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        values = np.zeros((4, len(batch)))
        found = find_sentences(batch)
        edges = np.searchsorted(found.docs, np.arange(len(batch) + 1))
        spans = list(zip(found.starts.tolist(), found.ends.tolist(), strict=True))
        for doc, text in enumerate(batch.texts):
            sentences = [batch.joined[start:end] for start, end in spans[edges[doc] : edges[doc + 1]]]
            values[:2, doc] = duplicate_shares(_SURPLUS_MARKS.sub("", text).split("\n"))
            values[2:, doc] = duplicate_shares(sentences)
        return dict(zip(self.columns, values, strict=True))


def duplicate_shares(items: Sequence[str]) -> tuple[float, float]:
    """Return the fraction of items that occurred before, and the fraction of characters in them; 0 of nothing."""
    different = set(items)
    total = sum(map(len, items))
    characters = total - sum(map(len, different))
    return (len(items) - len(different)) / max(len(items), 1), characters / max(total, 1)


class SwallowNgrams(Signal):
    """Repeated n-grams of characters, line feeds included. A share of nothing is 0.

    Columns: `swallow_top_2gram_share` to `swallow_top_4gram_share`: occurrences of the most frequent n-gram in all
    n-grams; `swallow_duplicate_5gram_share` to `swallow_duplicate_10gram_share`: different n-grams that occur more than
    once in all different n-grams.
    """

    name = "swallow_ngrams"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        top = (f"swallow_top_{size}gram_share" for size in _TOP)
        return (*top, *(f"swallow_duplicate_{size}gram_share" for size in _DUPLICATE))

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        counted = count_ngrams(batch, _DUPLICATE[-1])
        values = (
            ratio(each.most, each.total) if each.size in _TOP else ratio(each.repeated, each.distinct)
            for each in counted
        )
        return dict(zip(self.columns, values, strict=True))
