"""What normalizers and filters changed in a text, line by line and character by character."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from typing import Literal, NamedTuple

_MAX_PAIRS = 300_000
"""Pairs of equal characters of two lines that are compared; lines with more are shown as replaced."""

MAX_LINE = 20_000
"""Characters of a line that are compared."""


class Change(NamedTuple):
    """A piece of a line: text of both versions, of the old one only, or of the new one only."""

    kind: Literal["same", "removed", "added"]
    text: str


class ChangedLine(NamedTuple):
    """A line before and after normalization.

    Attributes:
        changes: its pieces in order.
        dropped: whether the line is not in the final text.
    """

    changes: list[Change]
    dropped: bool


def compare(before: str, after: str) -> list[Change]:
    """Return the differences between two versions of a line."""
    head = _common(before, after)
    tail = _common(before[head:][::-1], after[head:][::-1])
    old, new = before[head : len(before) - tail], after[head : len(after) - tail]
    pieces = [Change("same", before[:head]), *_differences(old, new), Change("same", before[len(before) - tail :])]
    return [piece for piece in pieces if piece.text]


def _common(one: str, other: str) -> int:
    """Return the number of characters at their beginning that are the same."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (a, b) in pairs if a != b), min(len(one), len(other)))


def _differences(old: str, new: str) -> Iterator[Change]:
    if not _is_comparable(old, new):
        yield from (Change("removed", old), Change("added", new))
        return
    for kind, *(a, b, c, d) in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            yield Change("same", old[a:b])
        else:
            yield from (Change("removed", old[a:b]), Change("added", new[c:d]))


def _is_comparable(old: str, new: str) -> bool:
    """Return whether a comparison is fast; it takes long for lines of few different characters."""
    counts = Counter(new)
    return sum(number * counts[character] for character, number in Counter(old).items()) <= _MAX_PAIRS


def match_lines(normalized: Sequence[str], final: Sequence[str]) -> list[int | None]:
    """Return, for each normalized line, the number of its line in the final text; None if it was dropped.

    The lines of the final text are some of the normalized ones, in the same order.
    """
    found: list[int | None] = []
    number = 0
    for line in normalized:
        kept = number < len(final) and line == final[number]
        found.append(number if kept else None)
        number += kept
    return found


def changed_lines(before: str, normalized: str, final: str, first: int, last: int) -> list[ChangedLine] | None:
    """Return the lines of a passage with their changes, and the dropped lines before them.

    Args:
        before: the text as the reader returned it.
        normalized: the text after the normalizers, with as many lines unless both are cut.
        final: the text in the corpus, some of these lines.
        first: number of the passage's first line in `final`.
        last: the number after its last. Lines dropped after the last line of the text belong to it.

    Returns:
        The lines without empty ones, or None if the final text has different lines than the normalized one.
    """
    old, new, kept = before.split("\n"), normalized.split("\n"), final.split("\n") if final else []
    if len(old) != len(new):  # they are cut to a number of characters: their last lines are incomplete
        whole = min(len(old), len(new)) - 1
        old, new = old[:whole], new[:whole]
    numbers = match_lines(new, kept[:last])
    places = {number: place for place, number in enumerate(numbers) if number is not None}
    if len(places) < min(last, len(kept)):
        return None
    start = places.get(first - 1, -1) + 1
    stop = places[last - 1] + 1 if last < len(kept) else len(new)
    lines = zip(old[start:stop], new[start:stop], numbers[start:stop], strict=True)
    return [ChangedLine(compare(a[:MAX_LINE], b[:MAX_LINE]), number is None) for a, b, number in lines if a or b]
