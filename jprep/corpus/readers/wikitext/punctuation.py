"""Mends the punctuation around what was dropped: brackets left empty, separators and labels left dangling."""

from __future__ import annotations

import re

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.placeholders import DROPPED

_PAIRS = dict(zip("（(「『〔［[〈《【", "）)」』〕］]〉》】", strict=True))
_CLOSERS = frozenset(_PAIRS.values())
_SPACES = " \t\u3000\u00a0"
_SEPARATORS = _SPACES + "、，,;；:：・/／" + DROPPED
_LISTING = ("、", "，", ",", ";", "；", "・")
_TWO_STOPS = f"。{DROPPED}。"
_S = re.escape(_SEPARATORS)
_OPEN = re.escape("".join(_PAIRS))
_CLOSE = re.escape("".join(_CLOSERS))
# Only a drop beside a bracket or a separator can have left something to mend: the others are merely deleted.
_SUSPECT = re.compile(f"{DROPPED}(?:(?<=[{_OPEN}{_S}]{DROPPED})[{_S}]*|[{_S}]*[{_CLOSE}{_S}])")
_EMPTY = (
    re.compile(r"（[\s、，,;；:：・]{0,20}）"),
    re.compile(r"\((?<![0-9A-Za-z_$\]>.]\()[\s、，,;；:：・]{0,20}\)"),  # not a function's: main()
)
_LAST_WORD = re.compile(r"[^\s、，,;；:：・（(「『\[［/／]{1,12}\Z")


class PunctuationRepair:
    """Closes the gaps that dropped templates, references and files leave in a sentence.

    Args:
        labels: words that mean nothing once what they announce is gone (`英`, `英語`, `略称`).
        tally: where the mended places are counted.
    """

    def __init__(self, labels: frozenset[str], tally: Tally) -> None:
        self._labels, self._tally = labels, tally

    def mend(self, text: str) -> str:
        """Delete every drop mark, and what stands senseless around it; linear in the text."""
        if DROPPED in text:
            text = self._mend_drops(text.replace(_TWO_STOPS, "。")).replace(DROPPED, "")
        for empty in _EMPTY:
            text, emptied = empty.subn("", text)
            self._tally["brackets.emptied"] += emptied
        return text

    def _mend_drops(self, text: str) -> str:
        pieces: list[str] = []
        done = floor = 0
        for match in _SUSPECT.finditer(text):
            if match.start() < done:
                continue
            start, shown, end = self._gap(text, floor, match.start())
            if start < done:  # nothing but separators since the last gap: the two are one
                pieces[-1] = shown
            else:
                pieces += text[done:start], shown
            done = end
            floor = end if text[start:end].strip(_SEPARATORS) else start
        return "".join((*pieces, text[done:]))

    def _gap(self, text: str, floor: int, at: int) -> tuple[int, str, int]:
        """Where the gap around the drop at `at` begins, what takes its place, and where it ends."""
        left = right = at
        while True:
            start, end = _stretch(text, floor, left, right)
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
        return start, "" if text[end : end + 1] == "。" else _joint(*around), end

    def _label(self, before: str, separators: str) -> int:
        """The length of a label (`英` of `英: `) that announced what was dropped; 0 where there is none."""
        if ":" not in separators and "：" not in separators:
            return 0
        word = _LAST_WORD.search(before)
        return len(word[0]) if word and word[0] in self._labels else 0


def _stretch(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Widen [start, end) over the separators on both sides."""
    while start > floor and text[start - 1] in _SEPARATORS:
        start -= 1
    while end < len(text) and text[end] in _SEPARATORS:
        end += 1
    return start, end


def _joint(left: str, right: str) -> str:
    """What stays of the separators around a drop in running text: neither several commas nor a space twice."""
    commas = [sign for sign in left + right if sign in _LISTING]
    if len(commas) > 1:
        return commas[0] + (" " if commas[0].isascii() else "")
    return left + (right.lstrip(_SPACES) if left[-1:].isspace() else right)
