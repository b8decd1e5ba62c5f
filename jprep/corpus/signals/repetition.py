"""A cheap signal of repetition: n-grams of characters that occur again nearby."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated

import msgspec
import numpy as np

from jprep.corpus.signals.batch import TextBatch, share
from jprep.corpus.step import Signal, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WINDOW = 4096
_SLOTS = 4  # for each character of a window
_HALF = np.uint32(15)
_FACTOR = np.uint32(0x9E3779B1)  # odd, and near 2**32 divided by the golden ratio: spreads the hashes
_BLOCK = 1 << 15  # characters at a time: with a window more, 16 bits number their n-grams, and tables stay in the cache


class RepetitionSignal(Signal):
    """N-grams that occur again in the same window of 4,096 characters, so that long documents do not count as more.

    Column: `repeated_ngram_share`, from 0 to 1; not for texts of fewer than n characters. Repetition is found by hashes
    in a table: a few n-grams that occur again are not counted where another one takes their place.
    """

    name = "repetition"
    version = 1

    class Config(StepConfig, frozen=True):
        """Options of the signal `repetition`.

        Attributes:
            ngram: characters of an n-gram.
        """

        ngram: Annotated[int, msgspec.Meta(ge=1, le=64)] = 8

    @property
    def columns(self) -> tuple[str, ...]:
        """The name of what is measured."""
        return ("repeated_ngram_share",)

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return the column for all documents of a batch."""
        size = self.config.ngram
        starts, docs = _windows(batch)
        lengths = np.minimum(_WINDOW, np.repeat(batch.starts[1:] - 1, np.bincount(docs, minlength=len(batch))) - starts)
        ngrams = np.maximum(lengths - size + 1, 0)
        repeated = np.zeros(len(starts))
        for low, high in _blocks(lengths):
            repeated[low:high] = _repeated(batch.codes, starts[low:high], ngrams[low:high], size)
        return {"repeated_ngram_share": share(batch.counts(docs, repeated), batch.counts(docs, ngrams))}


def _windows(batch: TextBatch) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return where each window begins in `codes`, and the index of its document; an empty text has one."""
    number = np.maximum(-(-batch.lengths // _WINDOW), 1)
    docs = np.repeat(np.arange(len(batch)), number)
    first = np.cumsum(number) - number
    return batch.starts[:-1][docs] + (np.arange(len(docs)) - first[docs]) * _WINDOW, docs


def _blocks(lengths: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Return ranges of windows of some `_BLOCK` characters."""
    ends = np.cumsum(lengths)
    number = int(ends[-1]) // _BLOCK + 1 if len(ends) else 0
    cuts = np.searchsorted(ends, np.arange(1, number) * _BLOCK) + 1
    edges = np.unique(np.concatenate([[0], cuts, [len(lengths)]])).tolist()
    return list(pairwise(edges))


def _repeated(
    codes: NDArray[np.uint32], starts: NDArray[np.int64], ngrams: NDArray[np.int64], size: int
) -> NDArray[np.float64]:
    """Return for each window how many of its n-grams occur again in it."""
    used = ngrams > 0
    starts, ngrams = starts[used], ngrams[used]
    found = np.zeros(len(used))
    if not len(starts):
        return found
    offset = int(starts[0])
    hashes = _hashes(codes[offset : int(starts[-1] + ngrams[-1]) + size - 1], size)
    begins, ends = starts - offset, starts - offset + ngrams
    own = np.append(starts[1:], starts[-1] + ngrams[-1]) - starts  # hashes from one window's beginning to the next's
    slots = ((hashes >> 16) * np.repeat((ngrams * _SLOTS).astype(np.uint32), own) >> 16).astype(np.intp)
    slots += np.repeat(begins * _SLOTS, own)
    outside = _between(ends, begins + own)
    slots[outside] = len(hashes) * _SLOTS
    numbers = np.min_scalar_type(len(hashes))
    table, order = np.empty(len(hashes) * _SLOTS + 1, numbers), np.arange(len(hashes), dtype=numbers)
    table[slots] = order  # the last n-gram of a slot stays
    last = table.take(slots)
    again = (hashes.take(last) == hashes) & (last != order)
    again[outside] = False
    found[used] = np.add.reduceat(again, begins, dtype=np.float64)
    return found


def _between(starts: NDArray[np.int64], ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the numbers of some ranges, one range after the other."""
    lengths = ends - starts
    offsets = np.cumsum(lengths) - lengths
    return np.repeat(starts - offsets, lengths) + np.arange(lengths.sum())


def _hashes(codes: NDArray[np.uint32], size: int) -> NDArray[np.uint32]:
    """Return a hash of the n-gram that begins at each character, as far as there is one."""
    number = len(codes) - size + 1
    hashes = codes[:number] * _FACTOR
    high = np.empty_like(hashes)
    for offset in range(1, size):
        hashes ^= np.right_shift(hashes, _HALF, out=high)
        hashes += codes[offset : offset + number]
        hashes *= _FACTOR
    return hashes ^ (hashes >> _HALF)
