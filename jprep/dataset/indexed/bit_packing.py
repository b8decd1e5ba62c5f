"""Two bits a token: token i's lie in byte i // 4, at bits 2·(i % 4)."""

from __future__ import annotations

from typing import BinaryIO

import numpy as np
import numpy.typing as npt

Marks = npt.NDArray[np.uint8]

_PLACES = np.arange(0, 8, 2, dtype=np.uint8)
_FOURS = ((np.arange(256, dtype=np.uint8)[:, None] >> _PLACES) & np.uint8(3)).view(np.uint32).reshape(-1)
"""For each byte its four marks, side by side in four bytes: one look-up takes a byte apart."""


def pack_marks(marks: Marks) -> Marks:
    """Marks, one a byte, four to a byte; the last byte is filled up with zeros."""
    full = np.zeros(-(-len(marks) // 4) * 4, np.uint8)
    full[: len(marks)] = marks
    joined: Marks = np.bitwise_or.reduce(full.reshape(-1, 4) << _PLACES, axis=1)
    return joined


def unpack_marks(data: Marks, start: int, stop: int) -> Marks:
    """The marks of tokens `start` to `stop`, one a byte, uint8, (stop - start,).

    Args:
        data: four to a byte, from the first token's byte on.
        start: the first token.
        stop: the one behind the last.
    """
    first = start // 4
    marks: Marks = _FOURS[data[first : -(-stop // 4)]].view(np.uint8)
    return marks[start - 4 * first : stop - 4 * first]


class BitPacker:
    """Writes marks to a file; what does not fill a byte waits for what comes next.

    Args:
        file: where to; it is the caller's to close, after `end`.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._rest = file, np.zeros(0, np.uint8)

    def add(self, marks: Marks) -> None:
        """Write some more, one a byte."""
        marks = np.concatenate([self._rest, marks]) if len(self._rest) else marks
        whole = len(marks) // 4 * 4
        self._file.write(pack_marks(marks[:whole]).data)
        self._rest = marks[whole:].copy()

    def end(self) -> None:
        """Write what waits."""
        self._file.write(pack_marks(self._rest).data)
        self._rest = self._rest[:0]
