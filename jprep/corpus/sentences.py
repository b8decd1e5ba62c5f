"""Where Japanese sentences end, by rules: end marks, brackets and the few words that carry a sentence on.

The rules, with examples, are in `docs/sentences.md`. One pass, in time linear in the text, whatever the text.
"""

from __future__ import annotations

import re
from itertools import pairwise

from jprep.corpus.document import SENTENCE
from jprep.corpus.step import Splitter

LONGEST_BRACKET = 100
"""No sentence ends between a bracket and its partner, unless more characters than these lie between them: then they
hold sentences of their own, or were never meant as a pair."""

_BRACKETS = '「」『』（）()｢｣［］[]｛｝{}【】〈〉《》〔〕〖〗〘〙〚〛≪≫«»“”‘’〝〟""'
_NARROW = str.maketrans("｢（［｛", "「([{")
_OPENERS = {opener: opener.translate(_NARROW) for opener in _BRACKETS[::2]}
_CLOSERS = {closer: _OPENERS[opener] for opener, closer in zip(_BRACKETS[::2], _BRACKETS[1::2], strict=True)}
"""Bracket → its kind, which it must share with its partner: a bracket and its half-width form are of one kind. The
straight quotation mark opens and closes."""
_QUOTES = frozenset('「『“〝"')

_STRONG, _WEAK, _PERIODS = "。｡", "！？!?", "．."
_MARKS = _STRONG + _WEAK
_ENDERS = _MARKS + _PERIODS
_JAPANESE, _LATIN = "ぁ-んァ-ヶー一-鿿々", "A-Za-zＡ-Ｚａ-ｚ"
_NUMERALS = "一二三四五六七八九十"
_ANY_BRACKET, _CLOSING = re.escape("".join(_OPENERS | _CLOSERS)), re.escape("".join(_CLOSERS))
_SPACES = r"[^\S\n]*+"

_CARRIES_ON = (
    rf"{_SPACES}[\-‐−–→～〜~=＝]|(?<=[{_LATIN}][{_WEAK}])[ァ-ヶ{_LATIN}]|[、，,‥…・/／を{_ENDERS}]|など|って"
    r"|の(?![ちどびりろん])|が(?![っん])|に(?![おぎこしじっほゃゅわん])"
    r"|と(?![うおかきくこってどなにばはびもりれろん]|ある|い[たてう][いまだ])"
)
"""What takes a name or a question on into the same sentence after ！ or ？: ヤフー！の, 誰か？と, Yahoo!ゲーム."""
_BEGINS = rf"(?![ぁ-ん])[{_JAPANESE}「『“A-Za-z\d]|[こそ]|また|まず|しか[しも]|さら|ただ|なお|すなわち"
"""What begins a sentence after a quotation that ends in a full stop; anything else carries the quoting one on."""
_PERIOD = rf"(?<=[{_JAPANESE}{_CLOSING}][{_PERIODS}])(?<![{_NUMERALS}][{_PERIODS}])(?![{_ENDERS}\da-zA-Zを])"
"""A full stop that ends a sentence: none of those in 3.5, 一．, J.S. or ．．．"""
_STANDS = rf"(?:(?<=[{_STRONG}{_PERIODS}])(?!を)|(?<=[{_WEAK}])(?!{_CARRIES_ON}))"
"""A run of marks ends a sentence, by its last mark and what follows."""

_PAIRS = [(rf"[{re.escape(o)}]", rf"[{re.escape(c)}]") for o, c in (("「", "」"), ("（(", "）)"), ("『", "』"))]
"""The common brackets."""
_EMPTY = rf"[^{_ANY_BRACKET}{_ENDERS}\n]{{0,{LONGEST_BRACKET}}}+"
_INNER = rf"[^{_ANY_BRACKET}\n]{{0,{LONGEST_BRACKET}}}+(?<![{_ENDERS}])"
"""What may stand between two of them that decide nothing: no bracket, and no mark, or at least none at the end."""

# Each pattern begins with one set of characters, with which `re` skips ahead, and looks back from there.
_KNOT = re.compile(
    rf"(?>(?:[^{_ANY_BRACKET}]++|{'|'.join(opener + _EMPTY + closer for opener, closer in _PAIRS)})*)[{_ANY_BRACKET}]"
)
"""Up to the first bracket that is not one of a pair without marks. `(?>(…)*)` and not `(…)*+`, which Python before
3.11.5 matches wrongly around groups that backtrack."""
_PLAIN_END = re.compile(
    rf"[{_ENDERS}](?<![{_MARKS}][{_MARKS}])(?:(?<=[{_MARKS}])[{_ENDERS}]*+{_STANDS}|{_PERIOD}){_SPACES}(?!\n|\Z)"
)
"""The end of a sentence within a line that holds no bracket."""
_GOES_ON = re.compile(
    rf"[{_ENDERS}](?<![{_MARKS}][{_MARKS}])(?<![^{_JAPANESE}{_CLOSING}][{_PERIODS}])"
    rf"[{_ENDERS}]*+[{_CLOSING} \u3000]*+(?!\n|\Z)"
)
"""An end mark that its line goes on after: many a line has none, and needs no closer look."""
_TOKEN = re.compile(
    rf"[{_ANY_BRACKET}{_ENDERS}](?:(?<=[{_MARKS}])(?<![{_MARKS}][{_MARKS}])[{_ENDERS}]*+"
    rf"(?:(?={_SPACES}[{_CLOSING}])|{_STANDS}){_SPACES}|{_PERIOD}{_SPACES}"
    rf"|{'|'.join(rf'(?<={opener}){_INNER}{closer}' for opener, closer in _PAIRS)}|(?<=[{_ANY_BRACKET}]))"
)
"""An end mark or a run of them, unless the sentence goes on; a pair of brackets that decides nothing; one bracket."""
_CARRIED = re.compile(_CARRIES_ON)
_BEGINNING = re.compile(rf"{_SPACES}(?:{_BEGINS})")
_SOLID = re.compile(r"\S")


class RuleSplitter(Splitter):
    """Splits by rules. Neither brackets nor sentences reach from one line into the next."""

    name = "rules"
    version = 1

    def mark(self, text: str) -> str:
        """Put U+001E between the sentences of each line; white space after a sentence stays with it."""
        ends = _ends(text)
        return SENTENCE.join(_cut(text, ends)) if ends else text


class NoSplitter(Splitter):
    """Leaves each paragraph one sentence."""

    name = "none"
    version = 1

    def mark(self, text: str) -> str:
        """Return the text as it is."""
        return text


def _cut(text: str, ends: list[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)])]


def _ends(text: str) -> list[int]:
    """The offsets at which sentences end, ends of lines left out."""
    ends: list[int] = []
    stop = 0
    while mark := _GOES_ON.search(text, stop):
        start = text.rfind("\n", stop, mark.start()) + 1 or stop
        knot = _KNOT.match(text, start)
        if not knot:
            return ends + _plain_ends(text, start, len(text))
        stop = text.rfind("\n", start, knot.end()) + 1
        if stop:
            ends += _plain_ends(text, start, stop)
        else:
            stop = text.find("\n", knot.end())
            stop = len(text) if stop < 0 else stop
            ends += _Line(text, start, stop).ends()
    return ends


def _plain_ends(text: str, start: int, stop: int) -> list[int]:
    return [end.end() for end in _PLAIN_END.finditer(text, start, stop)]


class _Line:
    """One pass over a line that holds brackets.

    A sentence may end after each end mark that is met; when a bracket finds its partner, the ends between them are
    taken back. An opening bracket that finds none therefore changes nothing.
    """

    def __init__(self, text: str, start: int, stop: int) -> None:
        self._text, self._start, self._stop = text, start, stop
        self._open: list[tuple[int, str]] = []
        self._opened: dict[str, int] = {}
        self._ends: list[int] = []

    def ends(self) -> list[int]:
        """The offsets at which sentences end, the end of the line left out."""
        for token in _TOKEN.finditer(self._text, self._start, self._stop):
            at, end = token.span()
            character = self._text[at]
            if character in _ENDERS:
                self._ends.append(end)
            elif end - at > 1:
                continue
            elif character in _OPENERS and not (character == '"' and self._opened.get('"')):
                self._enter(at, _OPENERS[character])
            else:
                self._leave(at, _CLOSERS[character])
        if self._ends and self._ends[-1] == self._stop:
            self._ends.pop()
        return self._ends

    def _enter(self, at: int, kind: str) -> None:
        self._open.append((at, kind))
        self._opened[kind] = self._opened.get(kind, 0) + 1

    def _leave(self, at: int, kind: str) -> None:
        """An end before a closing bracket moves behind it, or goes."""
        ends, opener = self._ends, self._partner(kind)
        ended = bool(ends) and ends[-1] == at
        if ended:
            ends.pop()
        if opener >= 0 and at - opener <= LONGEST_BRACKET + 1:
            while ends and ends[-1] > opener + 1:
                ends.pop()
        if ended and self._ends_sentence(opener, at, kind):
            following = _SOLID.search(self._text, at + 1, self._stop)
            ends.append(following.start() if following else self._stop)

    def _partner(self, kind: str) -> int:
        """Where the innermost open bracket of a kind stands, or -1. Those within it are given up."""
        if not self._opened.get(kind):
            return -1
        while True:
            opener, innermost = self._open.pop()
            self._opened[innermost] -= 1
            if innermost == kind:
                return opener

    def _ends_sentence(self, opener: int, closer: int, kind: str) -> bool:
        """Whether a sentence ends at a closing bracket that follows an end mark.

        A quotation that ends in a full stop does where what follows begins a sentence; one that ends in ！ or ？ may be
        a name. Another bracket does where it stands between two sentences, and one that was never opened always does.
        """
        text = self._text
        if opener >= 0 and kind in _QUOTES:
            return text[closer - 1] not in _WEAK and _BEGINNING.match(text, closer + 1) is not None
        before = opener - 1
        while before >= self._start and text[before].isspace():
            before -= 1
        alone = before < self._start or text[before] in _MARKS
        return alone and not _CARRIED.match(text, closer + 1)
