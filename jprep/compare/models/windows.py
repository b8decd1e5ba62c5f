"""Cut the tokens of a text into windows that a model scores, each with the context before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple


class Window(NamedTuple):
    """A row of tokens, and the index of the first one that is scored.

    Attributes:
        ids: the row.
        start: the first scored index, at least 1.
    """

    ids: list[int]
    start: int


def windows(prefix: int, ids: Sequence[int], length: int) -> Iterator[Window]:
    """Yield windows that score each token of a text once, with at least half a window of context where there is one.

    Args:
        prefix: the id before the text: the end of another document.
        ids: the text's tokens.
        length: tokens of a window.
    """
    row = [prefix, *ids]
    scored = 1
    while scored < len(row):
        begin = 0 if scored == 1 else max(0, scored - length // 2)
        end = min(len(row), begin + length)
        yield Window(row[begin:end], scored - begin)
        scored = end
