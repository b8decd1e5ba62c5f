"""Put whole documents together into rows, each into the row that it fits best. `docs/sampling.md` has the rules.

Documents are cut only where they are longer than a row. The rows are listed in an index file of their pieces, which is
written once and memory-mapped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.dataset.indexed.memory_map import release_pages
from jprep.dataset.sampling.sample_index import (
    LENGTH_BITS,
    Integers,
    RowPieces,
    SampleIndex,
    SplitTokens,
    cut_ranges,
    write_sample_index,
)
from jprep.dataset.sampling.sources import SourceRange

_PIECES = 1 << 18  # pieces that are put together at a time
_TOKENS = 1 << 20  # tokens read at a time
_APART = 64  # rows between two entries of the directory


class BestFitRows:
    """Rows of documents, listed in an index file. It can be pickled.

    The file has the pieces of all rows, those that continue a row as complements, then the number of pieces before each
    64th row, then the number of rows.

    Args:
        index: from `open_best_fit`.
        sources: the sources, if they are to be mixed.

    Attributes:
        firsts: first row of each source, and the number of all rows; empty without sources.
    """

    def __init__(self, index: SampleIndex, sources: Sequence[SourceRange] = ()) -> None:
        entries, self._index = index.entries, index
        self._rows = int(entries[-1])
        directory = -(-self._rows // _APART)
        end = len(entries) - 1 - directory
        self._pieces, self._directory = entries[:end], np.append(entries[end:-1], end)
        self._sources = tuple(sources)
        self.firsts = [*(self._first_from(one.start) for one in sources), self._rows] if sources else []

    def __reduce__(self) -> tuple[Any, ...]:
        return BestFitRows, (self._index, self._sources)

    def __len__(self) -> int:
        return self._rows

    def pieces(self, indices: Integers) -> RowPieces:
        """Return the pieces of some rows."""
        found = [self._of_row(index) for index in indices.tolist()]
        release_pages(self._pieces)
        entries = np.concatenate([*found, np.empty(0, np.int64)])
        rows = np.repeat(np.arange(len(found)), [len(one) for one in found])
        return RowPieces(rows, entries >> LENGTH_BITS, entries & ((1 << LENGTH_BITS) - 1))

    def _of_row(self, row: int) -> Integers:
        near = self._near(row // _APART)
        begins = np.append((near >= 0).nonzero()[0], len(near))
        first, stop = begins[row % _APART : row % _APART + 2]
        own = near[first:stop]
        return np.where(own < 0, ~own, own)

    def _near(self, number: int) -> Integers:
        """Return the pieces of the rows from one entry of the directory to the next."""
        near: Integers = self._pieces[self._directory[number] : self._directory[number + 1]]
        return near

    def _first_from(self, token: int) -> int:
        """Return the first row that begins at a token or after it: rows are in the order of their first tokens."""
        begins = self._pieces[self._directory[:-1]]
        number = max(0, int(np.searchsorted(begins, token << LENGTH_BITS)) - 1)
        near = self._near(number) if len(begins) else self._pieces
        before = int((near[near >= 0] < token << LENGTH_BITS).sum())
        return number * _APART + before


def open_best_fit(
    path: Path, split: SplitTokens, end: int, length: int, sources: Sequence[SourceRange] = ()
) -> BestFitRows:
    """Open the index of a split's rows; write it if it is missing or damaged.

    Args:
        path: the index file; its name must contain everything that the rows depend on.
        split: the split's tokens.
        end: the id that ends documents.
        length: maximum tokens of a row.
        sources: the sources, if they are to be mixed: no row has tokens of two.

    Raises:
        MachineError: the disk is full or not writable.
    """
    ranges = [(one.start, one.stop) for one in sources] or [(0, len(split.tokens))]
    return BestFitRows(write_sample_index(path, lambda: _index_entries(split, end, length, ranges)), sources)


def _index_entries(
    split: SplitTokens, end: int, length: int, ranges: Sequence[tuple[int, int]]
) -> Iterator[npt.NDArray[np.int64]]:
    directory, rows, written = [], 0, 0
    for start, stop in ranges:
        for pieces in _blocks(split, end, length, start, stop):
            entries, begins = _put_together(pieces, length)
            directory.append(begins[-rows % _APART :: _APART] + written)
            rows, written = rows + len(begins), written + len(entries)
            yield entries
    yield np.concatenate([*directory, [rows]]).astype(np.int64)


def _blocks(split: SplitTokens, end: int, length: int, start: int, stop: int) -> Iterator[Integers]:
    """Yield the entries of documents, cut to the length of a row, in blocks that are put together at a time."""
    held = np.empty(0, np.int64)
    for found in _documents(split, end, start, stop):
        held = np.concatenate([held, cut_ranges(*found, length)])
        while len(held) >= _PIECES:
            yield held[:_PIECES]
            held = held[_PIECES:]
    if len(held):
        yield held


def _documents(split: SplitTokens, end: int, start: int, stop: int) -> Iterator[tuple[Integers, Integers]]:
    """Yield first tokens and numbers of tokens of documents, the end token included."""
    for block in range(start, stop, _TOKENS):
        last = min(block + _TOKENS, stop)
        ends = (np.asarray(split.tokens[block:last]) == end).nonzero()[0] + block + 1
        split.release()
        if last == stop and (not len(ends) or ends[-1] < stop):
            ends = np.append(ends, stop)
        if len(ends):
            starts = np.append(start, ends[:-1])
            yield starts, ends - starts
            start = int(ends[-1])


def _put_together(pieces: Integers, length: int) -> tuple[Integers, Integers]:
    """Return pieces in the order of their rows, those that continue a row as complements; and where rows begin."""
    rows = best_fit_rows(pieces & ((1 << LENGTH_BITS) - 1), length)
    order = np.array([piece for row in rows for piece in row], np.int64)
    begins = np.cumsum([0, *map(len, rows[:-1])])
    entries = ~pieces[order]
    entries[begins] = ~entries[begins]
    return entries, begins


def best_fit_rows(sizes: Integers, length: int) -> list[list[int]]:
    """Put pieces together into rows: the longest first, each into the row with the least room that it fits into.

    Args:
        sizes: tokens of each piece, at most `length`, (pieces,).
        length: tokens of a row.

    Returns:
        The numbers of the pieces of each row, ascending; rows in the order of their first pieces.
    """
    rows: list[list[int]] = []
    with_room: list[list[int]] = [[] for _ in range(length + 1)]  # rows by the room that is left in them
    rooms = 0  # bit r is set if there is a row with room r
    order = np.argsort(-sizes, kind="stable")
    for piece, size in zip(order.tolist(), sizes[order].tolist(), strict=True):
        row, room = len(rows), length
        if fitting := rooms >> size:
            room = size + (fitting & -fitting).bit_length() - 1
            row = with_room[room].pop()
            rooms ^= 0 if with_room[room] else 1 << room
        else:
            rows.append([])
        rows[row].append(piece)
        if left := room - size:
            with_room[left].append(row)
            rooms |= 1 << left
    return sorted(map(sorted, rows))
