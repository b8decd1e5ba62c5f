"""Count the character n-grams of each text of a batch, exactly."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

_CODE_BITS = np.uint64(21)
_MAX_DOCUMENTS = 1 << (64 - 2 * 21)


class NgramCounts(NamedTuple):
    """The n-grams of each text, each of shape [documents].

    Attributes:
        size: n.
        total: all n-grams.
        distinct: different n-grams.
        repeated: different n-grams that occur more than once.
        most: occurrences of the most frequent one.
    """

    size: int
    total: NDArray[np.int64]
    distinct: NDArray[np.int64]
    repeated: NDArray[np.int64]
    most: NDArray[np.int64]


def count_ngrams(batch: TextBatch, longest: int) -> Iterator[NgramCounts]:
    """Yield the counts for n = 2, 3, … up to `longest`.

    An n-gram can only be repeated where both its first and its last n - 1 characters are, so that each size sorts
    little more than what is repeated in the size before. Line feeds are characters.

    Args:
        batch: at most 4,194,304 documents.
        longest: the largest n.
    """
    assert len(batch) <= _MAX_DOCUMENTS
    docs, codes = batch.doc_of_code.astype(np.uint64), batch.codes.astype(np.uint64)
    ends = np.repeat(batch.starts[1:] - 1, np.diff(batch.starts))
    at = np.flatnonzero(np.arange(len(codes)) + 1 < ends)
    keys = docs[at] << _CODE_BITS << _CODE_BITS | codes[at] << _CODE_BITS | codes[at + 1]
    for size in range(2, longest + 1):
        group, counts, example = _groups(keys)
        yield _counted(batch, size, counts, batch.doc_of_code[at[example]])
        repeats = counts[group] > 1
        at, name = at[repeats], group[repeats].astype(np.uint64)
        follows = np.flatnonzero(np.diff(at) == 1)
        keys = name[follows] << np.uint64(32) | name[follows + 1]
        at = at[follows]


def _groups(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the group of each key, and of each group its size and the index of one of its keys."""
    order = np.argsort(keys)
    ordered = keys[order]
    first = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])[: len(keys)])
    counts = np.diff(np.append(first, len(keys)))
    group = np.empty(len(keys), np.int64)
    group[order] = np.repeat(np.arange(len(first)), counts)
    return group, counts, order[first]


def _counted(batch: TextBatch, size: int, counts: NDArray[np.int64], docs: NDArray[np.int64]) -> NgramCounts:
    """Return the counts by document, from the sizes and documents of groups that hold all repeated n-grams."""
    total = np.maximum(batch.lengths - size + 1, 0)
    more, docs = counts[counts > 1], docs[counts > 1]
    most = np.minimum(total, 1)
    np.maximum.at(most, docs, more)
    distinct = total - np.bincount(docs, more - 1, len(batch)).astype(np.int64)
    return NgramCounts(size, total, distinct, np.bincount(docs, minlength=len(batch)), most)
