"""Repair the punctuation around dropped mark-up: empty brackets, superfluous separators and labels."""

from __future__ import annotations

import re

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import CELL, DROPPED

_PAIRS = dict(zip("（(「『〔［[〈《【", "）)」』〕］]〉》】", strict=True))
_CLOSERS = frozenset(_PAIRS.values())
_SPACES = " \t\u3000\u00a0"
_SEPARATORS = _SPACES + "、，,;；:：・/／" + DROPPED
_LISTING = ("、", "，", ",", ";", "；", "・")
_TWO_FULL_STOPS = re.compile(f"。(?:[ \t\u3000]*+{DROPPED}[{DROPPED} \t\u3000]*+。)+")
_S = re.escape(_SEPARATORS)
_OPEN = re.escape("".join(_PAIRS))
_CLOSE = re.escape("".join(_CLOSERS))
# Only placeholders beside a bracket or separator can leave wrong punctuation. The others are just deleted.
_GAP = re.compile(f"{DROPPED}(?:(?<=[{_OPEN}{_S}]{DROPPED})[{_S}]*|[{_S}]*[{_CLOSE}{_S}])")
_EMPTY = (
    re.compile(r"（[\s、，,;；:：・]{0,20}）"),
    re.compile(r"\((?<![0-9A-Za-z_$\]>.]\()[\s、，,;；:：・]{0,20}\)"),  # not a function: main()
)
_LAST_WORD = re.compile(rf"[^\s、，,;；:：・（(「『\[［/／{CELL}]{{1,12}}\Z")


class PunctuationRepair:
    """Repairs sentences from which templates, references or files were dropped.

    Args:
        labels: words that are removed if the text after their colon was dropped (`英`, `英語`, `略称`).
        tally: receives the counts of repairs.
    """

    def __init__(self, labels: frozenset[str], tally: Tally) -> None:
        self._labels, self._tally = labels, tally

    def repair(self, text: str) -> str:
        """Delete every placeholder and the superfluous punctuation around it, in linear time."""
        if DROPPED in text:
            text = self._repair_gaps(_TWO_FULL_STOPS.sub("。", text)).replace(DROPPED, "")
        for empty in _EMPTY:
            text, emptied = empty.subn("", text)
            self._tally["brackets.emptied"] += emptied
        return text

    def _repair_gaps(self, text: str) -> str:
        pieces: list[str] = []
        done = floor = 0
        for match in _GAP.finditer(text):
            if match.start() < done:
                continue
            start, shown, end = self._gap(text, floor, match.start())
            if start < done:  # only separators since the last gap: merge the two
                pieces[-1] = shown
            else:
                pieces += text[done:start], shown
            done = end
            floor = end if text[start:end].strip(_SEPARATORS) else start
        return "".join((*pieces, text[done:]))

    def _gap(self, text: str, floor: int, at: int) -> tuple[int, str, int]:
        """Return start, replacement and end of the gap around the placeholder at `at`."""
        left = right = at
        while True:
            start, end = _extend(text, floor, left, right)
            if label := self._label(text[max(floor, start - 16) : start], text[start:left]):
                left = start - label
            elif floor < start and end < len(text) and _PAIRS.get(text[start - 1]) == text[end]:
                left, right = start - 1, end + 1
                self._tally["brackets.emptied"] += 1
            else:
                break
        if (floor < start and text[start - 1] in _PAIRS) or text[end : end + 1] in _CLOSERS:
            self._tally["brackets.trimmed"] += 1
            return start, "", end
        around = text[start:left].replace(DROPPED, ""), text[right:end].replace(DROPPED, "")
        return start, "" if text[end : end + 1] == "。" else _joined_separators(*around), end

    def _label(self, before: str, separators: str) -> int:
        """Return the length of the label (`英` of `英: `) before dropped text, or 0."""
        if ":" not in separators and "：" not in separators:
            return 0
        word = _LAST_WORD.search(before)
        return len(word[0]) if word and word[0] in self._labels else 0


def _extend(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Extend the range [start, end) over the separators on both sides."""
    while start > floor and text[start - 1] in _SEPARATORS:
        start -= 1
    while end < len(text) and text[end] in _SEPARATORS:
        end += 1
    return start, end


def _joined_separators(left: str, right: str) -> str:
    """Return the separators to keep around dropped text: at most one comma, no double space."""
    commas = [sign for sign in left + right if sign in _LISTING]
    if len(commas) > 1:
        return commas[0] + (" " if commas[0].isascii() else "")
    return left + (right.lstrip(_SPACES) if left[-1:].isspace() else right)
