"""Pack two bits per token: token i is in byte i // 4, at bits 2·(i % 4)."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.uint8]

_SHIFTS = np.arange(0, 8, 2, dtype=np.uint8)
_UNPACKED = ((np.arange(256, dtype=np.uint8)[:, None] >> _SHIFTS) & np.uint8(3)).view(np.uint32).reshape(-1)
"""The four marks of each byte value, side by side in four bytes, so that one look-up unpacks a byte."""


def pack_marks(marks: Marks) -> Marks:
    """Pack marks, one per byte, into four per byte; the last byte is padded with zeros."""
    full = np.zeros(-(-len(marks) // 4) * 4, np.uint8)
    full[: len(marks)] = marks
    joined: Marks = np.bitwise_or.reduce(full.reshape(-1, 4) << _SHIFTS, axis=1)
    return joined


def unpack_marks(data: Marks, start: int, stop: int) -> Marks:
    """Return the marks of tokens `start` to `stop`, one per byte, uint8, (stop - start,).

    Args:
        data: four marks per byte, from the first token on.
        start: the first token.
        stop: the one after the last.
    """
    first = start // 4
    marks: Marks = _UNPACKED[data[first : -(-stop // 4)]].view(np.uint8)
    return marks[start - 4 * first : stop - 4 * first]


class BitPacker:
    """Write marks to a file. Marks that do not fill a byte are buffered.

    Args:
        file: output file; the caller closes it after `end`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._buffer = file, np.zeros(0, np.uint8)

    def add(self, marks: Marks) -> None:
        """Write marks, one per byte."""
        marks = np.concatenate([self._buffer, marks]) if len(self._buffer) else marks
        whole = len(marks) // 4 * 4
        self._file.write(pack_marks(marks[:whole]).data)
        self._buffer = marks[whole:].copy()

    def end(self) -> None:
        """Write the buffered marks."""
        self._file.write(pack_marks(self._buffer).data)
        self._buffer = self._buffer[:0]
