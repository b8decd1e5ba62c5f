"""Count which characters became which, by comparing lines before and after normalization."""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from itertools import islice
from typing import NamedTuple

_LINES = 3000  # changed lines that are compared
_LINE = 400  # characters of a line that are compared
_MOST = 20
_RUN = 8  # characters of a replaced run that is shown as a whole


class Replacement(NamedTuple):
    """A character, or a short run, that became another.

    Attributes:
        before: what stood there.
        after: what stands there now; "" for a removed character.
        name: Unicode name of a single character, or "".
        times: how often in the compared lines.
    """

    before: str
    after: str
    name: str
    times: int


def replacements(pairs: Iterable[tuple[str, str]]) -> list[Replacement]:
    """Return the most frequent replacements in some lines.

    Args:
        pairs: lines before and after.
    """
    counts = Counter(each for before, after in islice(pairs, _LINES) for each in _replaced(before, after))
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:_MOST]
    return [Replacement(*pair, _name(pair[0]), times) for pair, times in ordered]


def _replaced(before: str, after: str) -> Iterator[tuple[str, str]]:
    if max(len(before), len(after)) > _LINE:
        before, after = before[:_LINE], after[:_LINE]
    matcher = SequenceMatcher(None, _folded(before), _folded(after), autojunk=False)
    for tag, start, end, new_start, new_end in matcher.get_opcodes():
        old, new = before[start:end], after[new_start:new_end]
        if tag == "delete":
            yield from ((character, "") for character in old)
        elif tag in ("equal", "replace") and len(old) == len(new):
            yield from ((a, b) for a, b in zip(old, new, strict=True) if a != b)
        elif tag == "replace" and max(len(old), len(new)) <= _RUN:
            yield old, new


def _folded(text: str) -> list[str]:
    """Return the characters by what they mean, so that a character stands beside its other form."""
    return [unicodedata.normalize("NFKC", character) for character in text]


def _name(text: str) -> str:
    return unicodedata.name(text, f"U+{ord(text):04X}").lower() if len(text) == 1 else ""
