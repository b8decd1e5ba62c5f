"""Sample every n-th paragraph of a corpus, to evaluate a tokenizer."""

from __future__ import annotations

from typing import Any

import numpy as np

from jprep.tokenizer.counting.units import NEWLINE_BYTE, views

AIM = 3_000_000
"""Approximate bytes of marked text in the sample."""

MAX_CHARACTERS = 4_000
"""Longer paragraphs are truncated, at a mark if there is one."""

_SPARE = 1 << 16


class ParagraphSample:
    """Sample paragraphs from one task's texts.

    Args:
        stride: every `stride`-th paragraph is taken.
        size: bytes of the task's marked text. Limits the sample, however long the paragraphs taken are.
    """

    def __init__(self, stride: int, size: int) -> None:
        self._stride = stride
        self._room = 2 * size // stride + _SPARE
        self._lines: list[bytes] = []
        self.paragraphs = 0

    @property
    def taken(self) -> int:
        """Number of paragraphs taken."""
        return len(self._lines)

    def add(self, rows: Any) -> None:
        """Process an Arrow array of marked texts."""
        starts, data = views(rows)
        ends = np.sort(np.concatenate([np.flatnonzero(data == NEWLINE_BYTE), starts[1:]]))
        first = -self.paragraphs % self._stride
        self.paragraphs += len(ends)
        for index in range(first, len(ends), self._stride):
            start = int(ends[index - 1]) if index else 0
            self._take(data[start : ends[index]].tobytes().removeprefix(b"\n"))

    def _take(self, paragraph: bytes) -> None:
        text = paragraph.decode().replace("\x1e", "\x1f")
        if len(text) > MAX_CHARACTERS:
            mark = text.rfind("\x1f", 0, MAX_CHARACTERS + 1)
            text = text[: mark if mark > 0 else MAX_CHARACTERS]
        line = text.encode() + b"\n"
        if text and len(line) <= self._room:
            self._room -= len(line)
            self._lines.append(line)

    def data(self) -> bytes:
        r"""Return the paragraphs, each followed by `\n`."""
        return b"".join(self._lines)
