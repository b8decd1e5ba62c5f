"""The fewest edits that turn a part of one sequence into another, by bits of long integers."""

from __future__ import annotations

from collections.abc import Sequence


def within_edits(pattern: Sequence[int], text: Sequence[int], most: int) -> bool:
    """Return whether so many edits turn the pattern into a part of the text."""
    # A cheap lower bound, which nearly always decides: each value that the text lacks costs at least one edit.
    return len(set(pattern) - set(text)) <= most and edits_within(pattern, text) <= most


def edits_within(pattern: Sequence[int], text: Sequence[int]) -> int:
    """Return how many values must be inserted, deleted or replaced to turn the pattern into a part of the text.

    Cost: one step of a few operations on integers of `len(pattern)` bits for each value of the text (Myers 1999, A fast
    bit-vector algorithm for approximate string matching based on dynamic programming).
    """
    places = dict[int, int]()
    for number, value in enumerate(pattern):
        places[value] = places.get(value, 0) | 1 << number
    every, last = (1 << len(pattern)) - 1, 1 << len(pattern) >> 1
    increases, decreases, edits = every, 0, len(pattern)
    fewest = edits
    for value in text:
        equal = places.get(value, 0)
        diagonal = (((equal & increases) + increases) ^ increases) | equal | decreases
        rises, falls = decreases | (every & ~(diagonal | increases)), increases & diagonal
        edits += bool(rises & last) - bool(falls & last)
        rises, falls = rises << 1 & every, falls << 1 & every
        increases, decreases = falls | (every & ~(diagonal | rises)), rises & diagonal
        fewest = min(fewest, edits)
    return fewest
