"""One split on disk: tokens and index in Megatron's layout (`MMIDIDX`, version 1), and their marks beside them."""

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
"""Magic, version, dtype's code, sequences, documents and one more."""

CODES = {"int32": 4, "uint16": 8}
"""Megatron's numbers of the types that a token has here."""

LARGEST_UINT16 = 1 << 16
"""Ids up to which a token takes two bytes."""

Integers = npt.NDArray[np.int64]

_BLOCK = 1 << 20  # documents whose numbers are written at a time


def dtype_of(vocab_size: int) -> Literal["uint16", "int32"]:
    """The type of a token."""
    return "uint16" if vocab_size <= LARGEST_UINT16 else "int32"


def stored_dtype(dtype: str) -> np.dtype[Any]:
    """A token's type as it lies on disk: little-endian on every machine."""
    return np.dtype(dtype).newbyteorder("<")


def write_index(file: BinaryIO, dtype: str, documents: int, lengths: Callable[[], Iterable[Integers]]) -> None:
    """Write an index; memory does not grow with it.

    Args:
        file: where to.
        dtype: of a token.
        documents: how many there are; each is one sequence.
        lengths: gives tokens of each document, in order, in blocks; called twice.
    """
    size, place = stored_dtype(dtype).itemsize, 0
    file.write(HEADER.pack(MAGIC, 1, CODES[dtype], documents, documents + 1))
    for block in lengths():
        file.write(block.astype("<i4").data)
    for block in lengths():
        ends = place + np.cumsum(block, dtype=np.int64) * size
        file.write((ends - block.astype(np.int64) * size).astype("<i8").data)
        place = int(ends[-1]) if len(ends) else place
    for start in range(0, documents + 1, _BLOCK):
        file.write(np.arange(start, min(start + _BLOCK, documents + 1)).astype("<i8").data)


class IndexedSplit:
    """One split, memory-mapped: opening it costs the same whatever its size. It can be pickled.

        split = Indexed(Path("work/jawiki/dataset/train"), "uint16")
        split[0]                  # the first document's tokens
        split.marks(0, 100)       # of its first hundred tokens

    Args:
        prefix: the path of its files without their suffixes.
        dtype: of a token: `uint16` or `int32`.

    Attributes:
        tokens: all tokens, (tokens,), uint16 or int32.

    Raises:
        MismatchError: a file is missing, cut short, or not of this layout.
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
        """The tokens of a sequence."""
        start, stop = self.bounds(sequence)
        return self.tokens[start:stop]

    def __iter__(self) -> Iterator[npt.NDArray[Any]]:
        return map(self.__getitem__, range(len(self)))

    def bounds(self, sequence: int) -> tuple[int, int]:
        """A sequence's first token, and the one behind its last."""
        if not -self._sequences <= sequence < self._sequences:
            raise IndexError(sequence)
        start = int(self._pointers[sequence]) // self.tokens.itemsize
        return start, start + int(self._lengths[sequence])

    @cached_property
    def offsets(self) -> Integers:
        """Where sequences begin, (sequences + 1,): sequence s is `tokens[offsets[s]:offsets[s + 1]]`.

        It takes 8 bytes a document of memory; `bounds` and `sequence_at` take none.
        """
        offsets = np.empty(self._sequences + 1, np.int64)
        np.floor_divide(self._pointers, self.tokens.itemsize, out=offsets[:-1])
        offsets[-1] = len(self.tokens)
        return offsets

    def sequence_at(self, token: int) -> int:
        """The number of the sequence that a token lies in.

        Raises:
            IndexError: there is no such token.
        """
        if not 0 <= token < len(self.tokens):
            raise IndexError(token)
        low, high, place = 0, self._sequences, token * self.tokens.itemsize
        while high - low > 1:  # numpy would copy the pointers, which do not lie at multiples of their size
            middle = (low + high) // 2
            low, high = (middle, high) if self._pointers[middle] <= place else (low, middle)
        return low

    def marks(self, start: int, stop: int) -> Marks:
        """The marks of tokens `start` to `stop`: `WORD_START`, `SENTENCE_START`, both or 0; uint8, (stop - start,)."""
        start, stop, _ = slice(start, stop).indices(len(self.tokens))
        return self._marks.read(start, max(start, stop))

    def release(self) -> None:
        """Let go of the files' pages, and of the marks that this thread keeps: what is asked for next is read again."""
        release_pages(self.tokens)
        release_pages(self._lengths)  # and with them the whole index
        self._marks.release()

    def _path(self, suffix: str) -> Path:
        return self._prefix.with_name(self._prefix.name + suffix)

    def _checked(self, index: npt.NDArray[Any]) -> int:
        """How many sequences the index speaks of, if it is one."""
        head = bytes(index[: HEADER.size])
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise damaged_file(self._path(IDX), "this is no index of tokens")
        _, version, code, sequences, documents = HEADER.unpack(head)
        if (version, code, documents) != (1, CODES[self._dtype], sequences + 1):
            raise damaged_file(self._path(IDX), f"this is no index of documents of {self._dtype} tokens")
        self._check_size(IDX, HEADER.size + 20 * sequences + 8)
        return int(sequences)

    def _check_size(self, suffix: str, size: int) -> None:
        path = self._path(suffix)
        if (found := path.stat().st_size) != size:
            raise damaged_file(path, f"this file has {found} bytes, and should have {size}")
