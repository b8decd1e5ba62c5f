"""One split as rows of tokens, read in blocks: a row is a document, or a stretch of so many tokens."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.indexed.split import BIN, HEADER, IDX, IndexedSplit, stored_dtype
from jprep.dataset.manifest import DatasetManifest, Split, verify_split
from jprep.errors import MismatchError

Tokens = npt.NDArray[np.uint16 | np.int32]
Offsets = npt.NDArray[np.int64]

BLOCK = 1 << 20
"""Tokens that are read at a time; a longer row is read whole."""


class Block(NamedTuple):
    """Some rows on end.

    Attributes:
        tokens: theirs.
        edges: where in `tokens` each row begins, and where the last one ends; shape (rows + 1,).
        start: the first one's place in the split, in tokens.
    """

    tokens: Tokens
    edges: Offsets
    start: int

    @property
    def rows(self) -> int:
        """How many rows it holds."""
        return len(self.edges) - 1


class RowReader:
    """One split as rows. Blocks are read, not mapped: what was read does not stay in this process's memory.

    Args:
        folder: the dataset's.
        dataset: its manifest.
        split: the split.
        length: tokens of a row, cut from all documents on end; 0 takes each document for a row.

    Attributes:
        split: the split.
        tokens: how many tokens the rows hold.

    Raises:
        MismatchError: the files are not what the manifest says.
    """

    def __init__(self, folder: Path, dataset: DatasetManifest, split: Split, length: int = 0) -> None:
        self.split, self._length = split, length
        self._prefix, self._dtype = folder / split.name, stored_dtype(dataset.dtype)
        verify_split(folder, split)
        self._indexed = IndexedSplit(self._prefix, dataset.dtype)
        if (len(self._indexed), len(self._indexed.tokens)) != (split.documents, split.tokens):
            fix = "`jprep dataset pack … --restart` makes it again"
            raise MismatchError("the files are not what dataset.json says", where=str(self._prefix), fix=fix)
        self._count = split.tokens // length if length else split.documents
        self.tokens = self._count * length if length else split.tokens

    def __len__(self) -> int:
        return self._count

    @property
    def left_out(self) -> int:
        """Tokens behind the last whole row."""
        return self.split.tokens - self.tokens

    def shards(self, tokens: int) -> list[tuple[int, int]]:
        """Cut the rows into shards of about as many tokens each.

        Args:
            tokens: of a shard, at most, but for the length of a row.

        Returns:
            the first row of each, and the one behind its last; none is empty.
        """
        count = max(1, -(-self.tokens // tokens))
        starts = sorted({self._row(self.tokens * number // count) for number in range(count)})
        return list(zip(starts, [*starts[1:], len(self)], strict=True)) if len(self) else []

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[Block]:
        """Read the rows from `first` to before `last`, some at a time."""
        end = len(self) if last is None else last
        with self._prefix.with_suffix(BIN).open("rb") as tokens, self._prefix.with_suffix(IDX).open("rb") as index:
            while first < end:
                start = self._start(first)
                stop = min(end, max(first + 1, self._row(start + BLOCK)))
                edges = self._edges(index, first, stop)
                tokens.seek(start * self._dtype.itemsize)
                yield Block(np.fromfile(tokens, self._dtype, int(edges[-1])), edges, start)
                first = stop

    def marks(self, block: Block) -> Marks:
        """The marks of a block's tokens; see `IndexedSplit.marks`."""
        marks = self._indexed.marks(block.start, block.start + len(block.tokens))
        self._indexed.release()
        return marks

    def _row(self, token: int) -> int:
        """The row that holds a token; the number of rows behind them all."""
        if token >= self.tokens:
            return len(self)
        return token // self._length if self._length else self._indexed.sequence_at(token)

    def _start(self, row: int) -> int:
        return row * self._length if self._length else self._indexed.bounds(row)[0]

    def _edges(self, index: BinaryIO, first: int, stop: int) -> Offsets:
        """Where each row begins, from the first one on, and where the last one ends."""
        if self._length:
            return np.arange(stop - first + 1, dtype=np.int64) * self._length
        index.seek(HEADER.size + 4 * first)
        lengths = np.fromfile(index, "<i4", stop - first)
        return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
