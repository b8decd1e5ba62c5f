"""Repeated runs of characters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch, share

if TYPE_CHECKING:
    from numpy.typing import NDArray

RUN = 5
WINDOW = 2000
_BLOCK = 1 << 14  # indexes of runs are 16-bit numbers
_SLOT_BITS = 17  # 8 slots for each run of a block, in a table that the processor's cache holds
_PAIR, _QUAD, _FIVE, _IN_WINDOW = (
    np.uint64(factor) for factor in (0x9E3779B1, 0xC2B2AE3D27D4EB4F, 0xD6E8FEB86659FD93, 0xA0761D6478BD642F)
)


def repeated_runs(batch: TextBatch, counted: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the fraction of runs of `RUN` characters that occurred before in the same window, shape [documents].

    Each text is divided into windows of `WINDOW` characters, since the fraction would grow with the length of a text;
    a run belongs to the window of its first character.

    Args:
        batch: the documents.
        counted: which code points count, shape [code points]. A run may reach over those that do not.
    """
    places = np.flatnonzero(counted)
    sizes = np.bincount(batch.doc_of_code[places], minlength=len(batch))
    docs = np.append(batch.doc_of_code[places], [-1] * (RUN - 1))
    codes = np.append(batch.codes[places], [0] * (RUN - 1)).astype(np.uint64)
    table = np.empty(1 << _SLOT_BITS, np.int16)
    repeats = np.zeros(len(batch))
    for start, end, windows in _blocks(_window_sizes(sizes)):
        whole = docs[start:end] == docs[start + RUN - 1 : end + RUN - 1]
        keys = _hashes(codes[start : end + RUN - 1]) + windows * _IN_WINDOW
        repeated = docs[start:end][whole][_repeated(keys[whole], table)]
        repeats += np.bincount(repeated, minlength=len(batch))
    return share(repeats, np.maximum(sizes - RUN + 1, 0))


def _window_sizes(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of characters of each window of texts of some sizes."""
    filled = sizes[sizes > 0]
    number = -(-filled // WINDOW)
    windows = np.full(number.sum(), WINDOW)
    windows[np.cumsum(number) - 1] = filled - (number - 1) * WINDOW
    return windows


def _blocks(window_sizes: NDArray[np.int64]) -> Iterator[tuple[int, int, NDArray[np.uint64]]]:
    """Yield whole windows of some `_BLOCK` characters: where they begin and end, and the window of each character."""
    ends = np.cumsum(window_sizes)
    first = start = 0
    while first < len(ends):
        last = max(int(np.searchsorted(ends, start + _BLOCK, side="right")), first + 1)
        end = int(ends[last - 1])
        yield start, end, np.repeat(np.arange(first, last, dtype=np.uint64), window_sizes[first:last])
        first, start = last, end


def _hashes(codes: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a hash of each `RUN` characters, shape [characters - RUN + 1]."""
    pairs = codes[:-1] * _PAIR + codes[1:]
    quads = pairs[:-2] * _QUAD + pairs[2:]
    return quads[:-1] * _FIVE + codes[RUN - 1 :] * _QUAD


def _repeated(keys: NDArray[np.uint64], table: NDArray[np.int16]) -> NDArray[np.int64]:
    """Return the indexes of keys that occur again, all but one of each key.

    Each key writes its index into a slot, and reads back who wrote last: itself, an equal key, or (rarely) another key.
    """
    slots = (keys >> np.uint64(64 - _SLOT_BITS)).astype(np.int64)
    own = np.arange(len(keys), dtype=np.int16)
    table[slots] = own
    winners = table[slots]
    lost = np.flatnonzero(winners != own)
    equal = keys[winners[lost]] == keys[lost]
    others = lost[~equal]
    rest = others[np.argsort(keys[others], kind="stable")]
    again = rest[1:][keys[rest[1:]] == keys[rest[:-1]]]
    return np.concatenate([lost[equal], again])
