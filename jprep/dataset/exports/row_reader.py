"""Read a split in blocks of rows: a row is a document, or a fixed number of tokens."""

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
"""Tokens per block; a longer row is read whole."""


class Block(NamedTuple):
    """Consecutive rows.

    Attributes:
        tokens: tokens of the rows.
        edges: offset in `tokens` of each row, and the end of the last one; shape (rows + 1,).
        start: position of the first token in the split.
    """

    tokens: Tokens
    edges: Offsets
    start: int

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.edges) - 1


class RowReader:
    """Read a split as rows. Blocks are read, not mapped, so that memory is freed after each.

    Args:
        folder: the dataset directory.
        dataset: its manifest.
        split: the split.
        length: tokens per row, cut from the concatenated documents; 0 makes each document a row.

    Attributes:
        split: the split.
        tokens: number of tokens in all rows.

    Raises:
        MismatchError: the files differ from the manifest.
    """

    def __init__(self, folder: Path, dataset: DatasetManifest, split: Split, length: int = 0) -> None:
        self.split, self._length = split, length
        self._prefix, self._dtype = folder / split.name, stored_dtype(dataset.dtype)
        verify_split(folder, split)
        self._indexed = IndexedSplit(self._prefix, dataset.dtype)
        if (len(self._indexed), len(self._indexed.tokens)) != (split.documents, split.tokens):
            fix = "pack the dataset again with --restart"
            raise MismatchError("the files do not match dataset.json", where=str(self._prefix), fix=fix)
        self._count = split.tokens // length if length else split.documents
        self.tokens = self._count * length if length else split.tokens

    def __len__(self) -> int:
        return self._count

    @property
    def left_out(self) -> int:
        """Number of tokens after the last whole row."""
        return self.split.tokens - self.tokens

    def shards(self, tokens: int) -> list[tuple[int, int]]:
        """Divide the rows into shards with about the same number of tokens.

        Args:
            tokens: maximum tokens per shard, plus up to the length of a row.

        Returns:
            The first row of each shard and the one after its last; no shard is empty.
        """
        count = max(1, -(-self.tokens // tokens))
        starts = sorted({self._row(self.tokens * number // count) for number in range(count)})
        return list(zip(starts, [*starts[1:], len(self)], strict=True)) if len(self) else []

    def blocks(self, first: int = 0, last: int | None = None) -> Iterator[Block]:
        """Yield the rows from `first` to before `last` in blocks."""
        end = len(self) if last is None else last
        with self._prefix.with_suffix(BIN).open("rb") as tokens, self._prefix.with_suffix(IDX).open("rb") as index:
            while first < end:
                start = self._start(first)
                stop = min(end, max(first + 1, self._row(start + BLOCK)))
                edges = self._edges(index, first, stop)
                tokens.seek(start * self._dtype.itemsize)
                yield Block(np.fromfile(tokens, self._dtype, int(edges[-1])), edges, start)
                first = stop

    def lengths(self, first: int, last: int) -> Iterator[npt.NDArray[np.int64]]:
        """Yield the lengths of the documents from `first` to before `last` in blocks."""
        with self._prefix.with_suffix(IDX).open("rb") as index:
            for start in range(first, last, BLOCK):
                yield np.diff(self._edges(index, start, min(start + BLOCK, last)))

    def marks(self, block: Block) -> Marks:
        """Return the marks of a block's tokens; see `IndexedSplit.marks`."""
        marks = self._indexed.marks(block.start, block.start + len(block.tokens))
        self._indexed.release()
        return marks

    def _row(self, token: int) -> int:
        """Return the row that contains a token; the number of rows if the token is after the last."""
        if token >= self.tokens:
            return len(self)
        return token // self._length if self._length else self._indexed.sequence_at(token)

    def _start(self, row: int) -> int:
        return row * self._length if self._length else self._indexed.bounds(row)[0]

    def _edges(self, index: BinaryIO, first: int, stop: int) -> Offsets:
        """Return the offset of each row relative to the first, and the end of the last."""
        if self._length:
            return np.arange(stop - first + 1, dtype=np.int64) * self._length
        index.seek(HEADER.size + 4 * first)
        lengths = np.fromfile(index, "<i4", stop - first)
        return np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
