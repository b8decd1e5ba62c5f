"""The bits that restore a text from what a lossy pipeline made of it.

A normalizer that deletes or unifies characters leaves its model less to predict. For a fair figure the arm also pays
for the description of what was lost: an adaptive code, which learns from the held-out texts themselves as it goes
along, says at each character of the changed text whether it is kept, deleted, replaced, or preceded by others. Bits of
the model + bits of this code describe the text as it was read, so that no arm gains by forgetting.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from math import log2

_KEEP, _DELETE, _INSERT, _REPLACE = "keep", "delete", "insert ", "replace "
_BASE_KEEP, _BASE_DELETE = 0.98, 0.01
_CHARACTERS = 150_000  # assigned characters of Unicode, each of which may have to be inserted
_GLOBAL, _LOCAL = 1.0, 0.5  # weights of the less specific estimate
_PIECE = 2000  # characters that are aligned at a time

Step = tuple[str, str]
"""An event and its context, the next character of the changed text.

Events are `keep`, `delete`, and `insert ` and `replace ` with the original's character.
"""


class RestoringCode:
    """An adaptive code of changes: each text costs less if earlier ones had the same changes."""

    def __init__(self) -> None:
        self._events: Counter[str] = Counter()
        self._seen: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self._total = 0

    def bits(self, original: str, changed: str) -> float:
        """Return the bits that describe how `changed` becomes `original`, and learn from them."""
        return sum(self._encode(event, context) for event, context in _steps(original, changed))

    def _encode(self, event: str, context: str) -> float:
        base = {_KEEP: _BASE_KEEP, _DELETE: _BASE_DELETE}.get(
            event, (1 - _BASE_KEEP - _BASE_DELETE) / (2 * _CHARACTERS)
        )
        everywhere = (self._events[event] + _GLOBAL * base) / (self._total + _GLOBAL)
        here = self._seen[context]
        share = (here[event] + _LOCAL * everywhere) / (here.total() + _LOCAL)
        self._events[event] += 1
        self._total += 1
        here[event] += 1
        return -log2(share)


def restoring_bits(originals: Sequence[str], changed: Sequence[str]) -> list[float]:
    """Return the bits for each text; 0 for all if no text was changed.

    Args:
        originals: texts as they were read.
        changed: the same texts as a pipeline made them.
    """
    if list(originals) == list(changed):
        return [0.0] * len(originals)
    code = RestoringCode()
    return [code.bits(one, other) for one, other in zip(originals, changed, strict=True)]


def changed_characters(original: str, changed: str) -> int:
    """Return the characters of a text that a pipeline replaced or deleted, and those that it inserted."""
    return sum(event != _KEEP for event, _ in _steps(original, changed))


def _steps(original: str, changed: str) -> Iterator[Step]:
    """Yield the events, line by line if the number of lines is the same."""
    before, after = original.split("\n"), changed.split("\n")
    if len(before) != len(after):
        before, after = [original], [changed]
    for number, (one, other) in enumerate(zip(before, after, strict=True)):
        if number:
            yield _KEEP, "\n"
        yield from _line_steps(one, other)


def _line_steps(original: str, changed: str) -> Iterator[Step]:
    if original == changed:
        yield from ((_KEEP, character) for character in changed)
    elif max(len(original), len(changed)) > _PIECE:  # aligned in pieces, which costs more where they do not fit
        half = (len(original) + 1) // 2, (len(changed) + 1) // 2
        yield from _line_steps(original[: half[0]], changed[: half[1]])
        yield from _line_steps(original[half[0] :], changed[half[1] :])
    else:
        for _, start, end, first, last in SequenceMatcher(None, changed, original, autojunk=False).get_opcodes():
            if changed[start:end] == original[first:last]:
                yield from ((_KEEP, character) for character in changed[start:end])
                continue
            both = min(end - start, last - first)
            pairs = zip(original[first : first + both], changed[start : start + both], strict=True)
            yield from ((_REPLACE + one, other) for one, other in pairs)
            following = changed[start + both : start + both + 1]
            yield from ((_INSERT + character, following) for character in original[first + both : last])
            yield from ((_DELETE, character) for character in changed[start + both : end])
