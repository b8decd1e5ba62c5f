"""One split on disk: tokens and index in Megatron's layout (`MMIDIDX`, version 1), with a file of marks."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.indexed.mark_file import MarkReader
from jprep.dataset.indexed.memory_map import damaged_file, map_file, release_pages

BIN, IDX, MARKS = ".bin", ".idx", ".marks"
SUFFIXES = (BIN, IDX, MARKS)

MAGIC = b"MMIDIDX\x00\x00"
HEADER = struct.Struct("<9sQBQQ")
"""Magic, version, dtype code, sequences, documents plus one."""

CODES = {"int32": 4, "uint16": 8}
"""Megatron's dtype codes of the token types used here."""

LARGEST_UINT16 = 1 << 16
"""Largest vocabulary whose tokens take two bytes."""

Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 20  # document numbers written at a time


def dtype_of(vocab_size: int) -> Literal["uint16", "int32"]:
    """Return the type of a token."""
    return "uint16" if vocab_size <= LARGEST_UINT16 else "int32"


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """Return a token's type on disk: little-endian on every machine."""
    return np.dtype(dtype).newbyteorder("<")


def write_index(file: BinaryIO, dtype: str, documents: int, lengths: Callable[[], Iterable[Integers]]) -> None:
    """Write an index with constant memory.

    Args:
        file: output file.
        dtype: type of a token.
        documents: number of documents; each is one sequence.
        lengths: returns blocks of the documents' lengths in tokens, in order; called twice.
    """
    size, offset = stored_dtype(dtype).itemsize, 0
    file.write(HEADER.pack(MAGIC, 1, CODES[dtype], documents, documents + 1))
    for block in lengths():
        file.write(block.astype("<i4").data)
    for block in lengths():
        ends = offset + np.cumsum(block, dtype=np.int64) * size
        file.write((ends - block.astype(np.int64) * size).astype("<i8").data)
        offset = int(ends[-1]) if len(ends) else offset
    for start in range(0, documents + 1, _BLOCK):
        file.write(np.arange(start, min(start + _BLOCK, documents + 1)).astype("<i8").data)


class IndexedSplit:
    """A memory-mapped split. Opening it takes the same time for any size. It can be pickled.

        split = IndexedSplit(Path("work/jawiki/dataset/train"), "uint16")
        split[0]                  # tokens of the first document
        split.marks(0, 100)       # marks of the first hundred tokens

    Args:
        prefix: path of its files without suffix.
        dtype: type of a token: `uint16` or `int32`.

    Attributes:
        tokens: all tokens, (tokens,), uint16 or int32.

    Raises:
        MismatchError: a file is missing, truncated, or has another layout.
    """

    tokens: npt.NDArray[Any]

    def __init__(self, prefix: Path, dtype: str) -> None:
        self._prefix, self._dtype = Path(prefix), dtype
        index = map_file(self._path(IDX), np.dtype(np.uint8))
        self._sequences = self._checked(index)
        self._lengths = index[HEADER.size :][: 4 * self._sequences].view("<i4")
        self._pointers = index[HEADER.size + 4 * self._sequences :][: 8 * self._sequences].view("<i8")
        self.tokens = map_file(self._path(BIN), stored_dtype(dtype))
        tokens = self.bounds(self._sequences - 1)[1] if self._sequences else 0
        self._check_size(BIN, tokens * self.tokens.itemsize)
        self._marks = MarkReader(self._path(MARKS), tokens)

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexedSplit, (self._prefix, self._dtype)

    def __len__(self) -> int:
        return self._sequences

    def __getitem__(self, sequence: int) -> npt.NDArray[Any]:
        """Return the tokens of a sequence."""
        start, stop = self.bounds(sequence)
        return self.tokens[start:stop]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return map(self.__getitem__, range(len(self)))

    def bounds(self, sequence: int) -> tuple[int, int]:
        """Return a sequence's first token, and the one after its last."""
        if not -self._sequences <= sequence < self._sequences:
            raise IndexError(sequence)
        start = int(self._pointers[sequence]) // self.tokens.itemsize
        return start, start + int(self._lengths[sequence])

    @cached_property
    def offsets(self) -> Integers:
        """Start of each sequence, (sequences + 1,): sequence s is `tokens[offsets[s]:offsets[s + 1]]`.

        Takes 8 bytes of memory per document; `bounds` and `sequence_at` take none.
        """
        offsets = np.empty(self._sequences + 1, np.int64)
        np.floor_divide(self._pointers, self.tokens.itemsize, out=offsets[:-1])
        offsets[-1] = len(self.tokens)
        return offsets

    def sequence_at(self, token: int) -> int:
        """Return the index of the sequence that contains a token.

        Raises:
            IndexError: there is no such token.
        """
        if not 0 <= token < len(self.tokens):
            raise IndexError(token)
        low, high, offset = 0, self._sequences, token * self.tokens.itemsize
        while high - low > 1:  # numpy would copy the pointers, which are not aligned
            middle = (low + high) // 2
            low, high = (middle, high) if self._pointers[middle] <= offset else (low, middle)
        return low

    def marks(self, start: int, stop: int) -> Marks:
        """Return the marks of tokens `start` to `stop`, uint8, (stop - start,).

        Each is `WORD_START`, `SENTENCE_START`, both or 0.
        """
        start, stop, _ = slice(start, stop).indices(len(self.tokens))
        return self._marks.read(start, max(start, stop))

    def release(self) -> None:
        """Release the files' memory pages and this thread's cached marks; later reads load them again."""
        release_pages(self.tokens)
        release_pages(self._lengths)  # and with it the whole index
        self._marks.release()

    def _path(self, suffix: str) -> Path:
        return self._prefix.with_name(self._prefix.name + suffix)

    def _checked(self, index: npt.NDArray[Any]) -> int:
        """Validate the index and return its number of sequences."""
        head = bytes(index[: HEADER.size])
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise damaged_file(self._path(IDX), "not a token index")
        _, version, code, sequences, documents = HEADER.unpack(head)
        if (version, code, documents) != (1, CODES[self._dtype], sequences + 1):
            raise damaged_file(self._path(IDX), f"not an index of documents with {self._dtype} tokens")
        self._check_size(IDX, HEADER.size + 20 * sequences + 8)
        return int(sequences)

    def _check_size(self, suffix: str, size: int) -> None:
        path = self._path(suffix)
        if (found := path.stat().st_size) != size:
            raise damaged_file(path, f"expected {size} bytes, found {found}")
