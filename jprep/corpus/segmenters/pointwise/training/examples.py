"""Sentences for training, in files: memory does not grow with their number."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.segmenters.pointwise.characters import HALO, beside_white_space, fold_codes, pad_texts, symbols_of
from jprep.random.counter_bits import key
from jprep.random.permutation import permuted

if TYPE_CHECKING:
    from numpy.typing import NDArray

_SENTENCES = 4_000  # sentences that are converted at a time
_INSIDE, _BOUNDARY, _IGNORED = 0, 1, 2


class Batch(msgspec.Struct, frozen=True):
    """A stretch of the padded sentences.

    Attributes:
        symbols: the characters, with `HALO` more at both ends; see `symbols_of`.
        labels: 1 where a word begins, 0 where none does, float32, shape [characters].
        counted: 1 where the label counts: not at the start of a sentence, at a pad, or beside white space.
    """

    symbols: NDArray[np.uint32]
    labels: NDArray[np.float32]
    counted: NDArray[np.float32]


class Examples:
    """The sentences, in two files of a directory: characters, and labels.

    Args:
        folder: an existing directory for the files.
        size: characters of a batch.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self._characters, self._labels = folder / "characters", folder / "labels"
        self._size = size
        self.sentences = self.length = 0

    @property
    def batch_count(self) -> int:
        """The number of batches of a pass."""
        return -(-(self._characters.stat().st_size // 2 - 2 * HALO) // self._size)

    def write(self, sentences: Iterable[list[str]]) -> Examples:
        """Write the sentences, each a list of words, one behind the other."""
        with self._characters.open("wb") as characters, self._labels.open("wb") as labels:
            characters.write(np.zeros(HALO, np.uint16).tobytes())
            labels.write(bytes([_IGNORED]) * HALO)
            held = list[list[str]]()
            for words in sentences:
                held.append(words)
                if len(held) == _SENTENCES:
                    self._write_group(held, characters, labels)
                    held.clear()
            self._write_group(held, characters, labels)
            characters.write(np.zeros(HALO, np.uint16).tobytes())
            labels.write(bytes([_IGNORED]) * HALO)
        return self

    def batches(self, epoch: int, seed: int) -> Iterator[Batch]:
        """Yield stretches of all sentences, in another order in each pass."""
        padded = np.memmap(self._characters, np.uint16, "r")
        labels = np.memmap(self._labels, np.uint8, "r")
        number = self.batch_count
        order = permuted(np.arange(number), number, key(seed, epoch)) if number else np.zeros(0, np.int64)
        for place in order.tolist():
            start = HALO + place * self._size
            end = min(start + self._size, len(padded) - HALO)
            own: NDArray[np.uint8] = labels[start:end]
            symbols = symbols_of(padded[start - HALO : end + HALO])
            counted = ((own != _IGNORED) & ~beside_white_space(symbols)).astype(np.float32)
            yield Batch(symbols, (own == _BOUNDARY).astype(np.float32), counted)

    def _write_group(self, sentences: list[list[str]], characters: Any, labels: Any) -> None:
        if not sentences:
            return
        texts = ["".join(words) for words in sentences]
        lengths = np.array([len(text) for text in texts], np.int64)
        self.sentences += len(texts)
        self.length += int(lengths.sum())
        padded, places = pad_texts(fold_codes(code_points("".join(texts))), lengths)
        marks = np.full(len(padded), _IGNORED, np.uint8)
        marks[places] = _INSIDE
        word_lengths = np.array([len(word) for words in sentences for word in words], np.int64)
        marks[places[np.cumsum(word_lengths) - word_lengths]] = _BOUNDARY
        starts = np.cumsum(lengths) - lengths
        marks[places[starts[lengths > 0]]] = _IGNORED
        characters.write(padded[HALO:-HALO].tobytes())
        labels.write(marks[HALO:-HALO].tobytes())
