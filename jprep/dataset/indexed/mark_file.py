"""A split's `.marks`: in blocks of so many tokens, each compressed for itself. `spec.Split` has the layout."""

from __future__ import annotations

import struct
import threading
from array import array
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO

import numpy as np

from jprep.dataset.indexed.bit_packing import Marks, pack_marks, unpack_marks
from jprep.dataset.indexed.memory_map import damaged_file, map_file, release_pages

MAGIC, VERSION = b"JPMARKS\x00", 1
HEADER = struct.Struct("<8sII")
"""Magic, version, tokens of a block."""

BLOCK = 1 << 13
"""Tokens of a block: fewer are compressed less well, and of more a row that is looked at needs but a small share."""

_LEVEL = 1  # higher ones cost several times as much and leave 1 % less of the dataset
_HELD = 64  # blocks that a thread keeps unpacked, of 2 KB each
_PLACE = struct.Struct("<Q")


class MarkWriter:
    """Writes marks in blocks: the same bytes however they are cut into calls.

    Args:
        file: where to, at its beginning; it is the caller's to close, after `end`.
        block: tokens of a block, a multiple of four.
    """

    def __init__(self, file: BinaryIO, block: int = BLOCK) -> None:
        from zstandard import ZstdCompressor

        compressor = ZstdCompressor(level=_LEVEL, write_checksum=False, write_content_size=False)
        self._file, self._block, self._compress = file, block, compressor.compress
        self._rest, self._tokens = np.zeros(0, np.uint8), 0
        self._places = array("Q", [file.write(HEADER.pack(MAGIC, VERSION, block))])

    def add(self, marks: Marks) -> None:
        """Write some more, one a byte; what does not fill a block waits."""
        marks = np.concatenate([self._rest, marks])
        whole = len(marks) // self._block * self._block
        for start in range(0, whole, self._block):
            self._write(marks[start : start + self._block])
        self._rest = marks[whole:].copy()

    def end(self) -> None:
        """Write what waits, and where blocks are."""
        if len(self._rest):
            self._write(self._rest)
        self._rest = self._rest[:0]
        self._places.append(self._tokens)
        self._file.write(np.array(self._places, "<u8").data)

    def _write(self, marks: Marks) -> None:
        data = self._compress(pack_marks(marks).data)
        self._file.write(data)
        self._places.append(self._places[-1] + len(data))
        self._tokens += len(marks)


class _Held(threading.local):
    """What each thread has of its own: zstandard's objects are not to be shared."""

    def __init__(self) -> None:
        from zstandard import ZstdDecompressor

        self.decompress = ZstdDecompressor().decompress
        self.blocks = dict[int, Marks]()


class MarkReader:
    """A file of marks, mapped; threads may share it.

    Args:
        path: of the file.
        tokens: how many it must hold the marks of.

    Raises:
        MismatchError: it is missing, cut short, of other tokens, or not of this layout.
    """

    def __init__(self, path: Path, tokens: int) -> None:
        self._path, self._tokens, self._mapped = path, tokens, map_file(path, np.dtype(np.uint8))
        self._data = self._mapped.data  # numpy takes longer to cut a piece out than zstandard to unpack it
        self._block = self._checked_header()
        self._blocks = -(-tokens // self._block)
        self._footer = len(self._data) - _PLACE.size * (self._blocks + 2)
        self._check_footer()
        self._held = _Held()

    def read(self, start: int, stop: int) -> Marks:
        """The marks of tokens `start` to `stop`, one a byte, uint8, (stop - start,)."""
        size = self._block
        number, at = divmod(start, size)
        if at + stop - start <= size and start < stop:
            return unpack_marks(self._unpacked(number), at, at + stop - start)
        cuts = [start, *range((number + 1) * size, stop, size), stop]
        return np.concatenate([self.read(*cut) for cut in pairwise(cuts)]) if start < stop else np.zeros(0, np.uint8)

    def release(self) -> None:
        """Let go of the file's pages, and of the blocks that this thread keeps."""
        self._held.blocks.clear()
        release_pages(self._mapped)

    def _unpacked(self, number: int) -> Marks:
        """A block's marks, four to a byte."""
        blocks = self._held.blocks
        if number not in blocks:
            block = self._decompressed(number)
            if len(blocks) >= _HELD:
                del blocks[next(iter(blocks))]  # the oldest
            blocks[number] = block
        return blocks[number]

    def _decompressed(self, number: int) -> Marks:
        from zstandard import ZstdError

        first, last = (self._number(self._footer + _PLACE.size * place) for place in (number, number + 1))
        size = -(-min(self._block, self._tokens - number * self._block) // 4)
        try:
            data = self._held.decompress(self._data[first:last], max_output_size=size)
        except ZstdError as error:
            raise damaged_file(self._path, f"block {number} cannot be read: {error}") from error
        if len(data) != size:
            raise damaged_file(self._path, f"block {number} has {len(data)} bytes, and should have {size}")
        return np.frombuffer(data, np.uint8)

    def _checked_header(self) -> int:
        """The number of tokens of a block."""
        head = bytes(self._data[: HEADER.size])
        if len(head) < HEADER.size or not head.startswith(MAGIC):
            raise damaged_file(self._path, "this is no file of marks")
        _, version, block = HEADER.unpack(head)
        if version != VERSION or not block or block % 4:
            raise damaged_file(self._path, f"this is no file of marks of version {VERSION}")
        return int(block)

    def _check_footer(self) -> None:
        if self._footer >= HEADER.size:
            end = self._footer + _PLACE.size * self._blocks
            found = [self._number(place) for place in (self._footer, end, end + _PLACE.size)]
            if found == [HEADER.size, self._footer, self._tokens]:
                return
        what = f"these are not the marks of all {self._tokens} tokens; the file may be cut short"
        raise damaged_file(self._path, what)

    def _number(self, place: int) -> int:
        return int(_PLACE.unpack_from(self._data, place)[0])
