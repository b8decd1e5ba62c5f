"""Sentences for training, in files: memory does not grow with their number."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.segmenters.pointwise.characters import HALO, PADS, decided_by_rule, fold_codes, pad_texts, symbols_of
from jprep.corpus.segmenters.pointwise.training.passes import batch_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

HALVES = (0, 1)
"""Equal sentences are in the same half, so a model of one half has not seen those of the other."""

_SENTENCES = 4_000  # sentences that are converted at a time
_STRETCH = 1 << 20  # characters of a stretch
_INSIDE, _BOUNDARY, _IGNORED = 0, 1, 2


class Batch(msgspec.Struct, frozen=True):
    """A part of the padded sentences.

    Attributes:
        symbols: the characters, with `HALO` more at both ends; see `symbols_of`.
        labels: 1 where a word begins, 0 where none does, float32, shape [characters].
        counted: 1 where the label counts: not at the start of a sentence, at a pad, or beside white space.
    """

    symbols: NDArray[np.uint32]
    labels: NDArray[np.float32]
    counted: NDArray[np.float32]


class Examples:
    """The sentences of both halves, in files of a directory.

    Args:
        folder: an existing directory for the files.
        size: characters of a batch.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._halves = [_Half(folder / f"half-{half}", size) for half in HALVES]
        self.sentences = self.length = 0

    def batch_count(self, halves: Collection[int] = HALVES) -> int:
        """Return the number of batches of a pass over some halves."""
        return sum(self._halves[half].batch_count for half in halves)

    def write(self, sentences: Iterable[list[str]]) -> Examples:
        """Write the sentences, each a list of words, one after the other."""
        for words in sentences:
            text = "".join(words)
            self.sentences += 1
            self.length += len(text)
            self._halves[zlib.crc32(text.encode("utf-8", "surrogatepass")) % len(HALVES)].add(words)
        for half in self._halves:
            half.finish()
        return self

    def batches(self, epoch: int, seed: int, halves: Collection[int] = HALVES) -> Iterator[Batch]:
        """Yield parts of all sentences of some halves, in another order in each pass."""
        places = [(self._halves[half], place) for half in halves for place in range(self._halves[half].batch_count)]
        for each in batch_order(len(places), epoch, seed):
            half, place = places[each]
            yield half.batch(place)

    def stretches(self, half: int) -> Iterator[Batch]:
        """Yield all sentences of a half in order, in long parts of whole sentences, with pads at both ends."""
        return self._halves[half].stretches()


class _Half:
    """Two files: characters, and labels."""

    def __init__(self, stem: Path, size: int) -> None:
        self._characters, self._labels = stem.with_suffix(".characters"), stem.with_suffix(".labels")
        self._size, self._held = size, list[list[str]]()
        self._append(np.zeros(HALO, np.uint16), np.full(HALO, _IGNORED, np.uint8))

    @property
    def batch_count(self) -> int:
        return -(-(self._characters.stat().st_size // 2 - 2 * HALO) // self._size)

    def add(self, words: list[str]) -> None:
        self._held.append(words)
        if len(self._held) == _SENTENCES:
            self._write_held()

    def finish(self) -> None:
        self._write_held()
        self._append(np.zeros(HALO, np.uint16), np.full(HALO, _IGNORED, np.uint8))

    def batch(self, place: int) -> Batch:
        padded, labels = self._arrays()
        start = HALO + place * self._size
        return _batch(padded, labels, start, min(start + self._size, len(padded) - HALO))

    def stretches(self) -> Iterator[Batch]:
        padded, labels = self._arrays()
        start, last = HALO, len(padded) - HALO
        while start < last:
            end = min(start + _STRETCH, last)
            while end < last and padded[end - PADS : end].any():
                end += 1
            stretch = _batch(padded, labels, start, end)
            stretch.symbols[:HALO] = stretch.symbols[-HALO:] = 0  # not the sentences before and behind
            yield stretch
            start = end

    def _arrays(self) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
        return np.memmap(self._characters, np.uint16, "r"), np.memmap(self._labels, np.uint8, "r")

    def _append(self, padded: NDArray[np.uint16], labels: NDArray[np.uint8]) -> None:
        for path, data in ((self._characters, padded), (self._labels, labels)):
            with path.open("ab") as file:
                file.write(data.tobytes())

    def _write_held(self) -> None:
        sentences = self._held
        if not sentences:
            return
        texts = ["".join(words) for words in sentences]
        lengths = np.array([len(text) for text in texts], np.int64)
        padded, places = pad_texts(fold_codes(code_points("".join(texts))), lengths)
        labels = np.full(len(padded), _IGNORED, np.uint8)
        labels[places] = _INSIDE
        word_lengths = np.array([len(word) for words in sentences for word in words], np.int64)
        labels[places[np.cumsum(word_lengths) - word_lengths]] = _BOUNDARY
        starts = np.cumsum(lengths) - lengths
        labels[places[starts[lengths > 0]]] = _IGNORED
        self._append(padded[HALO:-HALO], labels[HALO:-HALO])
        sentences.clear()


def _batch(padded: NDArray[np.uint16], labels: NDArray[np.uint8], start: int, end: int) -> Batch:
    own = labels[start:end]
    symbols = symbols_of(padded[start - HALO : end + HALO])
    counted = ((own != _IGNORED) & ~decided_by_rule(symbols)[HALO:-HALO]).astype(np.float32)
    return Batch(symbols, (own == _BOUNDARY).astype(np.float32), counted)
