"""Mends the punctuation around what was dropped: brackets left empty, separators and labels left dangling."""

from __future__ import annotations

import re

from jprep.corpus.document import Tally
from jprep.corpus.readers.wikitext.marks import DROP

_PAIRS = {"（": "）", "(": ")", "「": "」", "『": "』", "〔": "〕", "［": "］", "[": "]", "〈": "〉", "《": "》", "【": "】"}
_CLOSERS = frozenset(_PAIRS.values())
_SPACES = " \t\u3000\u00a0"
_SEPARATORS = _SPACES + "、，,;；:：・/／" + DROP
_LISTING = frozenset("、，,;；・/／")
_S = re.escape(_SEPARATORS)
_OPEN = re.escape("".join(_PAIRS))
_CLOSE = re.escape("".join(_CLOSERS))
# Only a drop beside a bracket or a separator can have left something to mend: the others are merely deleted.
_SUSPECT = re.compile(f"{DROP}(?:(?<=[{_OPEN}{_S}]{DROP})[{_S}]*|[{_S}]*[{_CLOSE}{_S}])")
_EMPTY = (
    re.compile(r"（[\s、，,;；:：・]{0,20}）"),
    re.compile(r"\((?<![0-9A-Za-z_$\]>.]\()[\s、，,;；:：・]{0,20}\)"),  # not a function's: main()
)
_LAST_WORD = re.compile(r"[^\s、，,;；:：・（(「『\[［/／]{1,12}\Z")


class Mender:
    """Closes the gaps that dropped templates, references and files leave in a sentence.

    Args:
        labels: words that mean nothing once what they announce is gone (`英`, `英語`, `略称`).
        tally: where the mended places are counted.
    """

    def __init__(self, labels: frozenset[str], tally: Tally) -> None:
        self._labels, self._tally = labels, tally

    def mend(self, text: str) -> str:
        """Delete every drop mark, and what stands senseless around it; linear in the text."""
        if DROP in text:
            text = self._mend_drops(text).replace(DROP, "")
        for empty in _EMPTY:
            text, emptied = empty.subn("", text)
            self._tally["brackets.emptied"] += emptied
        return text

    def _mend_drops(self, text: str) -> str:
        out: list[str] = []
        done = 0
        for match in _SUSPECT.finditer(text):
            if match.start() < done:
                continue
            left, gap, end = self._gap(text, done, match.start())
            out += left, gap
            done = end
        out.append(text[done:])
        return "".join(out)

    def _gap(self, text: str, done: int, at: int) -> tuple[str, str, int]:
        """The text before the drop at `at`, what takes the gap's place, and where the text goes on."""
        start, end = _stretch(text, done, at, at)
        emptied = False
        while start > done and end < len(text) and _PAIRS.get(text[start - 1]) == text[end]:
            self._tally["brackets.emptied"] += 1
            emptied = True
            start, end = _stretch(text, done, start - 1, end + 1)
        before, after = text[done:start], text[end : end + 1]
        if before[-1:] in _PAIRS or after in _CLOSERS:
            self._tally["brackets.trimmed"] += 1
            return self._unlabelled(before, text[start:at]), "", end
        return before, _joint(text[start:at], text[at:end], emptied), end

    def _unlabelled(self, before: str, separators: str) -> str:
        """Take off a label (`英:`) whose text was dropped, with the separators before it."""
        if ":" not in separators and "：" not in separators:
            return before
        label = _LAST_WORD.search(before[-16:])
        if label is None or label[0] not in self._labels:
            return before
        return before[: -len(label[0])].rstrip(_SEPARATORS)


def _stretch(text: str, floor: int, start: int, end: int) -> tuple[int, int]:
    """Widen [start, end) over the separators on both sides."""
    while start > floor and text[start - 1] in _SEPARATORS:
        start -= 1
    while end < len(text) and text[end] in _SEPARATORS:
        end += 1
    return start, end


def _joint(left: str, right: str, emptied: bool) -> str:
    """What stays of the separators around a drop in running text: both sides, but not the same comma twice."""
    left, right = left.replace(DROP, ""), right.replace(DROP, "")
    if emptied:
        left, right = left.rstrip(_SPACES), right.lstrip(_SPACES) if left else right
    if left.strip(_SPACES)[-1:] in _LISTING and right.strip(_SPACES)[:1] in _LISTING and left.strip(_SPACES):
        return left
    return left + right
