"""Find Japanese sentence boundaries by rules: end marks, brackets, and words that continue a sentence.

`docs/sentences.md` describes the rules with examples. The splitter makes one pass, in time linear in the text.
"""

from __future__ import annotations

import re
from itertools import pairwise

from jprep.corpus.document import SENTENCE
from jprep.corpus.step import Splitter

MAX_BRACKET_CHARS = 100
"""No sentence ends inside a pair of brackets of up to this many characters. Longer pairs hold complete sentences, or
their brackets do not belong together."""

_BRACKETS = '「」『』（）()｢｣［］[]｛｝{}【】〈〉《》〔〕〖〗〘〙〚〛≪≫«»“”‘’〝〟""'
_NARROW = str.maketrans("｢（［｛", "「([{")
_OPENERS = {opener: opener.translate(_NARROW) for opener in _BRACKETS[::2]}
_CLOSERS = {closer: _OPENERS[opener] for opener, closer in zip(_BRACKETS[::2], _BRACKETS[1::2], strict=True)}
"""Bracket → kind of its pair. A bracket and its half-width form have the same kind. The straight quotation mark both
opens and closes."""
_QUOTES = frozenset('「『“〝"')

_FULL_STOPS, _QUESTION_MARKS, _PERIODS = "。｡", "！？!?", "．."
_MARKS = _FULL_STOPS + _QUESTION_MARKS
_ENDERS = _MARKS + _PERIODS
_JAPANESE, _LATIN = "ぁ-んァ-ヶー一-鿿々", "A-Za-zＡ-Ｚａ-ｚ"
_NUMERALS = "一二三四五六七八九十"
_ANY_BRACKET, _CLOSING = re.escape("".join(_OPENERS | _CLOSERS)), re.escape("".join(_CLOSERS))
_SPACES = r"[^\S\n]*+"

_CONTINUES = (
    rf"{_SPACES}[\-‐−–→～〜~=＝]|(?<=[{_LATIN}][{_QUESTION_MARKS}])[ァ-ヶ{_LATIN}]|[、，,‥…・/／を{_ENDERS}]|など|って"
    r"|の(?![ちどびりろん])|が(?![っん])|に(?![おぎこしじっほゃゅわん])"
    r"|と(?![うおかきくこってどなにばはびもりれろん]|ある|い[たてう][いまだ])"
)
"""What continues the sentence after ！ or ？ in a name or question: ヤフー！の, 誰か？と, Yahoo!ゲーム."""
_BEGINS = rf"(?![ぁ-ん])[{_JAPANESE}「『“A-Za-z\d]|[こそ]|また|まず|しか[しも]|さら|ただ|なお|すなわち"
"""What begins a new sentence after a quotation that ends in a full stop. Anything else continues the sentence around
the quotation."""
_PERIOD = rf"(?<=[{_JAPANESE}{_CLOSING}][{_PERIODS}])(?<![{_NUMERALS}][{_PERIODS}])(?![{_ENDERS}\da-zA-Zを])"
"""A full stop that ends a sentence, unlike those in 3.5, 一．, J.S. or ．．．"""
_ENDS_HERE = rf"(?:(?<=[{_FULL_STOPS}{_PERIODS}])(?!を)|(?<=[{_QUESTION_MARKS}])(?!{_CONTINUES}))"
"""Condition under which a run of end marks ends a sentence, by its last mark and what follows."""

_PAIRS = [(rf"[{re.escape(o)}]", rf"[{re.escape(c)}]") for o, c in (("「", "」"), ("（(", "）)"), ("『", "』"))]
"""The common pairs of brackets."""
_EMPTY = rf"[^{_ANY_BRACKET}{_ENDERS}\n]{{0,{MAX_BRACKET_CHARS}}}+"
_INNER = rf"[^{_ANY_BRACKET}\n]{{0,{MAX_BRACKET_CHARS}}}+(?<![{_ENDERS}])"
"""Contents of pairs that cannot affect a boundary: no bracket, and no end mark, or at least none at the end."""

# Each pattern begins with a character set, so that `re` can skip ahead, and looks behind from there.
_FIRST_BRACKET = re.compile(
    rf"(?>(?:[^{_ANY_BRACKET}]++|{'|'.join(opener + _EMPTY + closer for opener, closer in _PAIRS)})*)[{_ANY_BRACKET}]"
)
"""Text up to the first bracket that is not part of a pair without end marks. It uses `(?>(…)*)` instead of `(…)*+`,
which Python before 3.11.5 matches wrongly around groups that backtrack."""
_PLAIN_END = re.compile(
    rf"[{_ENDERS}](?<![{_MARKS}][{_MARKS}])(?:(?<=[{_MARKS}])[{_ENDERS}]*+{_ENDS_HERE}|{_PERIOD}){_SPACES}(?!\n|\Z)"
)
"""The end of a sentence inside a line without brackets."""
_MARK_INSIDE_LINE = re.compile(
    rf"[{_ENDERS}](?<![{_MARKS}][{_MARKS}])(?<![^{_JAPANESE}{_CLOSING}][{_PERIODS}])"
    rf"[{_ENDERS}]*+[{_CLOSING} \u3000]*+(?!\n|\Z)"
)
"""An end mark with text after it on its line. Lines without one need no further work."""
_TOKEN = re.compile(
    rf"[{_ANY_BRACKET}{_ENDERS}](?:(?<=[{_MARKS}])(?<![{_MARKS}][{_MARKS}])[{_ENDERS}]*+"
    rf"(?:(?={_SPACES}[{_CLOSING}])|{_ENDS_HERE}){_SPACES}|{_PERIOD}{_SPACES}"
    rf"|{'|'.join(rf'(?<={opener}){_INNER}{closer}' for opener, closer in _PAIRS)}|(?<=[{_ANY_BRACKET}]))"
)
"""A run of end marks that may end a sentence, a pair of brackets that cannot affect a boundary, or one bracket."""
_CONTINUATION = re.compile(_CONTINUES)
_BEGINNING = re.compile(rf"{_SPACES}(?:{_BEGINS})")
_SOLID = re.compile(r"\S")


class RuleSplitter(Splitter):
    """Splits text by rules. Neither sentences nor pairs of brackets continue across lines."""

    name = "rules"
    version = 1

    def mark(self, text: str) -> str:
        """Insert U+001E between the sentences of each line. White space after a sentence belongs to it."""
        ends = _ends(text)
        return SENTENCE.join(_cut(text, ends)) if ends else text


class NoSplitter(Splitter):
    """Treats each paragraph as one sentence."""

    name = "none"
    version = 1

    def mark(self, text: str) -> str:
        """Return the text unchanged."""
        return text


def _cut(text: str, ends: list[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)])]


def _ends(text: str) -> list[int]:
    """Return the offsets at which sentences end, except ends of lines."""
    ends: list[int] = []
    stop = 0
    while mark := _MARK_INSIDE_LINE.search(text, stop):
        start = text.rfind("\n", stop, mark.start()) + 1 or stop
        bracket = _FIRST_BRACKET.match(text, start)
        if not bracket:
            return ends + _plain_ends(text, start, len(text))
        stop = text.rfind("\n", start, bracket.end()) + 1
        if stop:
            ends += _plain_ends(text, start, stop)
        else:
            stop = text.find("\n", bracket.end())
            stop = len(text) if stop < 0 else stop
            ends += _BracketLine(text, start, stop).ends()
    return ends


def _plain_ends(text: str, start: int, stop: int) -> list[int]:
    return [end.end() for end in _PLAIN_END.finditer(text, start, stop)]


class _BracketLine:
    """One pass over a line with brackets.

    Each end mark is a possible end. When a closing bracket matches an opening one, the possible ends between them are
    removed. An opening bracket without a partner therefore has no effect.
    """

    def __init__(self, text: str, start: int, stop: int) -> None:
        self._text, self._start, self._stop = text, start, stop
        self._open: list[tuple[int, str]] = []
        self._open_counts: dict[str, int] = {}
        self._ends: list[int] = []

    def ends(self) -> list[int]:
        """Return the offsets at which sentences end, except the end of the line."""
        for token in _TOKEN.finditer(self._text, self._start, self._stop):
            at, end = token.span()
            character = self._text[at]
            if character in _ENDERS:
                self._ends.append(end)
            elif end - at > 1:
                continue
            elif character in _OPENERS and not (character == '"' and self._open_counts.get('"')):
                self._open_bracket(at, _OPENERS[character])
            else:
                self._close_bracket(at, _CLOSERS[character])
        if self._ends and self._ends[-1] == self._stop:
            self._ends.pop()
        return self._ends

    def _open_bracket(self, at: int, kind: str) -> None:
        self._open.append((at, kind))
        self._open_counts[kind] = self._open_counts.get(kind, 0) + 1

    def _close_bracket(self, at: int, kind: str) -> None:
        """Move an end directly before the closing bracket behind it, or remove it."""
        ends, opener = self._ends, self._partner(kind)
        ended = bool(ends) and ends[-1] == at
        if ended:
            ends.pop()
        if opener >= 0 and at - opener <= MAX_BRACKET_CHARS + 1:
            while ends and ends[-1] > opener + 1:
                ends.pop()
        if ended and self._ends_sentence(opener, at, kind):
            following = _SOLID.search(self._text, at + 1, self._stop)
            ends.append(following.start() if following else self._stop)

    def _partner(self, kind: str) -> int:
        """Return the offset of the innermost open bracket of a kind, or -1. Open brackets inside it are discarded."""
        if not self._open_counts.get(kind):
            return -1
        while True:
            opener, innermost = self._open.pop()
            self._open_counts[innermost] -= 1
            if innermost == kind:
                return opener

    def _ends_sentence(self, opener: int, closer: int, kind: str) -> bool:
        """Return whether a sentence ends at a closing bracket that follows an end mark.

        A quotation that ends in a full stop ends a sentence if the following text begins one; a quotation that ends in
        ！ or ？ may be a name and does not. Other brackets end a sentence if they stand between two sentences.
        """
        text = self._text
        if opener >= 0 and kind in _QUOTES:
            return text[closer - 1] not in _QUESTION_MARKS and _BEGINNING.match(text, closer + 1) is not None
        before = opener - 1
        while before >= self._start and text[before].isspace():
            before -= 1
        alone = before < self._start or text[before] in _MARKS
        return alone and not _CONTINUATION.match(text, closer + 1)
