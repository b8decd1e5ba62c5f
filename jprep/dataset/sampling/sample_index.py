"""Divide a split's tokens into samples. `docs/sampling.md` has the rules.

A sample is a range of consecutive tokens, or several. Ranges of equal length are computed; the others are listed in an
index file beside the split, which is created once and memory-mapped.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import xxhash

from jprep.dataset.indexed.memory_map import release_pages
from jprep.dataset.manifest import SENTENCE_START
from jprep.dataset.sampling.config import Packing
from jprep.io.atomic import atomic_path

Integers = npt.NDArray[np.int64]

LENGTH_BITS = 20
"""An index entry is `start << 20 | length`: 8 bytes, for up to 2**43 tokens in samples of fewer than 2**20."""

_log = logging.getLogger(__name__)

_BLOCK = 1 << 20  # tokens read, and samples written, at a time


class SplitTokens(Protocol):
    """The tokens and marks of a split; see `jprep.dataset.indexed.split.IndexedSplit`."""

    tokens: npt.NDArray[Any]

    def marks(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        """Return the marks of tokens `start` to `stop`."""

    def release(self) -> None:
        """Release the memory pages that were read."""


class SeparatorIds(NamedTuple):
    """The ids of the end-of-document token and of the newline between paragraphs."""

    end: int
    newline: int


class RowPieces(NamedTuple):
    """The ranges of tokens that some rows consist of, in the order of the rows.

    Attributes:
        rows: the row that each piece is part of, from 0, (pieces,).
        starts: the first token of each piece, (pieces,).
        sizes: the number of its tokens, (pieces,).
    """

    rows: Integers
    starts: Integers
    sizes: Integers

    def placed(self, first: int) -> tuple[Integers, Integers, Integers, Integers]:
        """Return `rows`, the column at which each piece begins if those of a row follow each other, and the rest.

        Args:
            first: the column of the first piece of each row.
        """
        before = np.cumsum(self.sizes) - self.sizes
        new_row = np.append(True, self.rows[1:] != self.rows[:-1])[: len(self.rows)]
        return self.rows, first + before - before[new_row][np.cumsum(new_row) - 1], self.starts, self.sizes


class Samples(Protocol):
    """All samples of a split."""

    def __len__(self) -> int: ...

    def pieces(self, indices: Integers) -> RowPieces:
        """Return the pieces of the rows of some samples."""


class Ranges(ABC):
    """Samples of consecutive tokens."""

    @abstractmethod
    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the first token and the number of tokens of some samples, each (rows,)."""

    def pieces(self, indices: Integers) -> RowPieces:
        """Return the pieces of the rows of some samples: one each."""
        return RowPieces(np.arange(len(indices)), *self.spans(indices))


class StreamSamples(Ranges):
    """Samples of `length` consecutive tokens; the last one has the remaining tokens.

    Args:
        tokens: number of tokens of the split.
        length: tokens per sample.
    """

    def __init__(self, tokens: int, length: int) -> None:
        self._tokens, self._length = tokens, length

    def __len__(self) -> int:
        return -(-self._tokens // self._length)

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the first token and the number of tokens of some samples, each (rows,)."""
        starts = indices * self._length
        return starts, np.minimum(self._length, self._tokens - starts)


class SampleIndex(Ranges):
    """Samples listed in an index file. It can be pickled.

    Args:
        path: a file written by `open_sample_index`.

    Attributes:
        entries: `start << 20 | length` of each sample.

    Raises:
        ValueError: the file is not an index, or damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.entries = _checked(np.asarray(np.memmap(path, "<i8", "r")))

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleIndex, (self._path,)

    def __len__(self) -> int:
        return len(self.entries)

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the first token and the number of tokens of some samples, each (rows,)."""
        entries = self.entries[indices]
        release_pages(self.entries)
        return entries >> LENGTH_BITS, entries & ((1 << LENGTH_BITS) - 1)

    def first_from(self, token: int) -> int:
        """Return the first sample that begins at a token or after it."""
        return int(np.searchsorted(self.entries, token << LENGTH_BITS))


def _checked(entries: Integers) -> Integers:
    """Validate an index and return its samples. It ends in their number and a hash; an index of jprep 0.1 has no hash.

    Raises:
        ValueError: the index is damaged.
    """
    if len(entries) > 1 and entries[-2] == len(entries) - 2:
        found = xxhash.xxh3_64_digest(entries[:-1].data)
        release_pages(entries)
        if found == entries[-1].tobytes():
            return entries[:-2]
    elif len(entries) and entries[-1] == len(entries) - 1:
        return entries[:-1]
    raise ValueError("the sample index is damaged")


def open_sample_index(
    path: Path, split: SplitTokens, packing: Packing, length: int, separators: SeparatorIds
) -> SampleIndex:
    """Open a split's sample index; write it if it is missing or damaged.

    Args:
        path: the index file; its name must contain everything that the samples depend on.
        split: the split's tokens.
        packing: `complete` or `line`.
        length: maximum tokens per sample.
        separators: ids between paragraphs and documents.

    Raises:
        MachineError: the disk is full or not writable.
    """
    find = (
        (lambda: complete_samples(split, length))
        if packing == "complete"
        else (lambda: _lines(split, length, separators))
    )
    return write_sample_index(path, find)


def write_sample_index(path: Path, find: Callable[[], Iterator[Integers]]) -> SampleIndex:
    """Open a sample index; write it if it is missing or damaged.

    Args:
        path: the index file.
        find: yields the entries of all samples in blocks.

    Raises:
        MachineError: the disk is full or not writable.
    """
    try:
        return SampleIndex(path)
    except (OSError, ValueError) as error:
        if not isinstance(error, FileNotFoundError):
            _log.warning("%s is damaged and will be rewritten", path)
        with atomic_path(path) as temporary, temporary.open("wb") as file:
            _write(file, find())
        return SampleIndex(path)


def _write(file: BinaryIO, found: Iterator[Integers]) -> None:
    """Write samples in blocks, then their number and the XXH3 of everything before."""
    count, digest = 0, xxhash.xxh3_64()
    for entries in chain(found, (None,)):
        data = np.array([count], "<i8") if entries is None else entries.astype("<i8")
        file.write(data.data)
        digest.update(data.data)
        count += len(data)
    file.write(digest.digest())


def complete_samples(split: SplitTokens, length: int) -> Iterator[Integers]:
    """Yield samples of whole sentences, as many as fit; a sentence that is longer than a sample is cut."""
    total = len(split.tokens)
    start, ahead = 0, [0]
    for block in range(0, total, _BLOCK):
        stop = min(block + _BLOCK, total)
        found = (split.marks(block, stop) & SENTENCE_START).nonzero()[0] + block
        split.release()
        ahead = ahead[bisect_right(ahead, start) :] + found.tolist()
        cuts = [start, *_cuts(start, ahead, length, stop)]
        if stop == total and start < total:
            cuts.append(total)
        yield _entries(np.array(cuts[:-1], np.int64), np.diff(cuts))
        start = cuts[-1]


def _cuts(start: int, sentences: list[int], length: int, stop: int) -> Iterator[int]:
    """Yield the ends of samples that are determined by the sentences before `stop`."""
    passed = 0
    while start + length < stop:
        passed = bisect_right(sentences, start + length, passed)
        last = sentences[passed - 1] if passed else 0
        start = last if last > start else start + length
        yield start


def _lines(split: SplitTokens, length: int, separators: SeparatorIds) -> Iterator[Integers]:
    """Yield paragraphs without their separators; longer ones are cut."""
    start, total = 0, len(split.tokens)
    for block in range(0, total, _BLOCK):
        tokens = np.asarray(split.tokens[block : block + _BLOCK])
        ends = ((tokens == separators.end) | (tokens == separators.newline)).nonzero()[0] + block
        if block + _BLOCK >= total and (not len(ends) or ends[-1] < total - 1):
            ends = np.append(ends, total)
        split.release()
        if len(ends):
            starts = np.concatenate([[start], ends[:-1] + 1])
            yield cut_ranges(starts, ends - starts, length)
            start = int(ends[-1]) + 1


def cut_ranges(starts: Integers, sizes: Integers, length: int) -> Integers:
    """Return the entries of ranges, cut into pieces of at most `length` tokens; empty ranges give none."""
    counts = -(-sizes // length)
    run = np.repeat(np.arange(len(starts)), counts)
    skipped = (np.arange(len(run)) - (np.cumsum(counts) - counts)[run]) * length
    return _entries(starts[run] + skipped, np.minimum(sizes[run] - skipped, length))


def _entries(starts: Integers, lengths: Integers) -> Integers:
    return starts << LENGTH_BITS | lengths
