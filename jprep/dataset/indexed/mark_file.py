"""Read and write a split's `.marks` file, whose blocks are compressed separately. `Split` documents the layout."""

from __future__ import annotations

import struct
import threading
from array import array
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from jprep.dataset.indexed.bit_packing import Marks, pack_marks, unpack_marks
from jprep.dataset.indexed.memory_map import damaged_file, map_file, release_pages

MAGIC, VERSION = b"JPMARKS\x00", 1
HEADER = struct.Struct("<8sII")
"""Magic, version, tokens per block."""

BLOCK = 1 << 13
"""Tokens per block. Smaller blocks compress worse; larger ones make reading a single row more expensive."""

_LEVEL = 1  # higher levels take several times as long and reduce the dataset by 1 %
_CACHED_BLOCKS = 64  # decompressed blocks cached per thread, 2 KB each
_OFFSET = struct.Struct("<Q")


class MarkBlocks:
    """Write the blocks of marks alone. The output does not depend on how the marks are divided among calls.

    Args:
        file: output file; the caller closes it after `end`.
        block: tokens per block, a multiple of four.

    Attributes:
        sizes: bytes of each block.
    """

    def __init__(self, file: BinaryIO, block: int = BLOCK) -> None:
        from zstandard import ZstdCompressor

        compressor = ZstdCompressor(level=_LEVEL, write_checksum=False, write_content_size=False)
        self._file, self._block, self._compress = file, block, compressor.compress
        self._buffer = np.zeros(0, np.uint8)
        self.sizes = array("Q")

    def add(self, marks: Marks) -> None:
        """Write marks, one per byte. Marks that do not fill a block are buffered."""
        marks = np.concatenate([self._buffer, marks])
        whole = len(marks) // self._block * self._block
        for start in range(0, whole, self._block):
            self._write(marks[start : start + self._block])
        self._buffer = marks[whole:].copy()

    def end(self) -> None:
        """Write the buffered marks."""
        if len(self._buffer):
            self._write(self._buffer)
        self._buffer = self._buffer[:0]

    def _write(self, marks: Marks) -> None:
        data = self._compress(pack_marks(marks).data)
        self._file.write(data)
        self.sizes.append(len(data))


class MarkWriter:
    """Write a file of marks. The output does not depend on how the marks are divided among calls.

    Args:
        file: output file, at its beginning; the caller closes it after `end`.
        block: tokens per block, a multiple of four.
    """

    def __init__(self, file: BinaryIO, block: int = BLOCK) -> None:
        self._file, self._tokens = file, 0
        write_header(file, block)
        self._blocks = MarkBlocks(file, block)

    def add(self, marks: Marks) -> None:
        """Write marks, one per byte. Marks that do not fill a block are buffered."""
        self._blocks.add(marks)
        self._tokens += len(marks)

    def end(self) -> None:
        """Write the buffered marks and the footer."""
        self._blocks.end()
        write_footer(self._file, self._blocks.sizes, self._tokens)


def write_header(file: BinaryIO, block: int = BLOCK) -> None:
    """Write what precedes the blocks."""
    file.write(HEADER.pack(MAGIC, VERSION, block))


def write_footer(file: BinaryIO, sizes: npt.ArrayLike, tokens: int) -> None:
    """Write what follows the blocks: the offset of each and of the footer, and the number of tokens."""
    offsets = HEADER.size + np.concatenate([[0], np.cumsum(np.asarray(sizes, np.int64))])
    file.write(np.append(offsets, tokens).astype("<u8").data)


class _ThreadState(threading.local):
    """State of one thread: zstandard's objects are not thread-safe."""

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor

        self.decompress = ZstdDecompressor().decompress
        self.blocks = dict[int, Marks]()


class MarkReader:
    """Memory-mapped file of marks. Threads may share it.

    Args:
        path: the file.
        tokens: expected number of tokens.

    Raises:
        MismatchError: the file is missing, truncated, of another number of tokens, or has another layout.
    """

    def __init__(self, path: Path, tokens: int) -> None:
        self._path, self._tokens, self._mapped = path, tokens, map_file(path, np.dtype(np.uint8))
        self._data = self._mapped.data  # slicing the numpy array takes longer than decompressing a block
        self._block = self._checked_header()
        self._blocks = -(-tokens // self._block)
        self._footer = len(self._data) - _OFFSET.size * (self._blocks + 2)
        self._check_footer()
        self._local = _ThreadState()

    def read(self, start: int, stop: int) -> Marks:
        """Return the marks of tokens `start` to `stop`, one per byte, uint8, (stop - start,)."""
        size = self._block
        number, at = divmod(start, size)
        if at + stop - start <= size and start < stop:
            return unpack_marks(self._cached_block(number), at, at + stop - start)
        cuts = [start, *range((number + 1) * size, stop, size), stop]
        return np.concatenate([self.read(*cut) for cut in pairwise(cuts)]) if start < stop else np.zeros(0, np.uint8)

    def release(self) -> None:
        """Release the file's memory pages and the blocks that this thread has cached."""
        self._local.blocks.clear()
        release_pages(self._mapped)

    def _cached_block(self, number: int) -> Marks:
        """Return a block's marks, four per byte."""
        blocks = self._local.blocks
        if number not in blocks:
            block = self._decompressed(number)
            if len(blocks) >= _CACHED_BLOCKS:
                del blocks[next(iter(blocks))]  # the oldest
            blocks[number] = block
        return blocks[number]

    def _decompressed(self, number: int) -> Marks:
        from zstandard import ZstdError

        first, last = (self._number(self._footer + _OFFSET.size * index) for index in (number, number + 1))
        size = -(-min(self._block, self._tokens - number * self._block) // 4)
        try:
            data = self._local.decompress(self._data[first:last], max_output_size=size)
        except ZstdError as error:
            raise damaged_file(self._path, f"block {number} cannot be read: {error}") from error
        if len(data) != size:
            raise damaged_file(self._path, f"block {number}: expected {size} bytes, found {len(data)}")
        return np.frombuffer(data, np.uint8)

    def _checked_header(self) -> int:
        """Validate the header and return the number of tokens per block."""
        head = bytes(self._data[: HEADER.size])
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise damaged_file(self._path, "not a file of marks")
        _, version, block = HEADER.unpack(head)
        if version != VERSION or not block or block % 4:
            raise damaged_file(self._path, f"not a file of marks of version {VERSION}")
        return int(block)

    def _check_footer(self) -> None:
        if self._footer >= HEADER.size:
            end = self._footer + _OFFSET.size * self._blocks
            found = [self._number(offset) for offset in (self._footer, end, end + _OFFSET.size)]
            if found == [HEADER.size, self._footer, self._tokens]:
                return
        what = f"expected the marks of {self._tokens} tokens; the file may be truncated"
        raise damaged_file(self._path, what)

    def _number(self, offset: int) -> int:
        return int(_OFFSET.unpack_from(self._data, offset)[0])
