"""Find sentence boundaries line by line, with regular expressions, in time linear in the text."""

from __future__ import annotations

from collections.abc import Container
from functools import cached_property

from jprep.corpus.splitters.patterns import (
    BEGINNING,
    CLOSERS,
    CONTINUATION,
    ENDERS,
    ENDING,
    FIRST_BRACKET,
    MARK_INSIDE_LINE,
    MARKS,
    MAX_BRACKET_CHARS,
    MAX_INSERTION_CHARS,
    OPENERS,
    PLAIN_END,
    QUESTION_MARKS,
    QUOTES,
    SOLID,
    TOKEN,
)


def find_ends(text: str) -> list[int]:
    """Return the offsets at which sentences end, except ends of lines."""
    ends: list[int] = []
    stop = 0
    while mark := MARK_INSIDE_LINE.search(text, stop):
        start = text.rfind("\n", stop, mark.start()) + 1 or stop
        bracket = FIRST_BRACKET.match(text, start)
        if not bracket:
            return ends + plain_ends(text, start, len(text))
        stop = text.rfind("\n", start, bracket.end()) + 1
        if stop:
            ends += plain_ends(text, start, stop)
        else:
            stop = text.find("\n", bracket.end())
            stop = len(text) if stop < 0 else stop
            ends += BracketLine(text, start, stop).ends()
    return ends


def plain_ends(text: str, start: int, stop: int) -> list[int]:
    """Return the offsets at which sentences end in lines without brackets, except ends of lines."""
    return [end.end() for end in PLAIN_END.finditer(text, start, stop)]


class BracketLine:
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
        for token in TOKEN.finditer(self._text, self._start, self._stop):
            at, end = token.span()
            character = self._text[at]
            if character in ENDERS:
                self._ends.append(end)
            elif end - at > 1:
                continue
            elif character in OPENERS and not (character == '"' and self._closes(end)):
                self._open_bracket(at, OPENERS[character])
            else:
                self._close_bracket(at, CLOSERS[character])
        if self._ends and self._ends[-1] == self._stop:
            self._ends.pop()
        return self._ends

    def _closes(self, end: int) -> bool:
        """Return whether a straight quotation mark closes: after one that opened, and at the end of a line."""
        return bool(self._open_counts.get('"')) or end > self._solid_stop

    @cached_property
    def _solid_stop(self) -> int:
        """The offset after the last character of the line that is neither a closing bracket nor a space."""
        return self._start + len(self._text[self._start : self._stop].rstrip(ENDING))

    def _open_bracket(self, at: int, kind: str) -> None:
        self._open.append((at, kind))
        self._open_counts[kind] = self._open_counts.get(kind, 0) + 1

    def _close_bracket(self, at: int, kind: str) -> None:
        """Move an end directly before the closing bracket after it, or remove it."""
        ends, opener = self._ends, self._partner(kind)
        ended = bool(ends) and ends[-1] == at
        if ended:
            ends.pop()
        if opener >= 0 and at - opener <= self._max_chars(opener, kind) + 1:
            while ends and ends[-1] > opener + 1:
                ends.pop()
        if ended and self._ends_sentence(opener, at, kind):
            following = SOLID.search(self._text, at + 1, self._stop)
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

    def _max_chars(self, opener: int, kind: str) -> int:
        return MAX_BRACKET_CHARS if kind in QUOTES or self._is_behind(opener, ENDERS, CLOSERS) else MAX_INSERTION_CHARS

    def _is_behind(self, opener: int, marks: str, skipped: Container[str] = ()) -> bool:
        """Return whether a bracket opens after one of some marks or at the start of the line, white space aside."""
        before = opener - 1
        while before >= self._start and (self._text[before].isspace() or self._text[before] in skipped):
            before -= 1
        return before < self._start or self._text[before] in marks

    def _ends_sentence(self, opener: int, closer: int, kind: str) -> bool:
        """Return whether a sentence ends at a closing bracket that follows an end mark.

        A quotation that ends in a full stop ends a sentence if the following text begins one; a quotation that ends in
        ！ or ？ may be a name and does not. Other brackets end a sentence if they stand between two sentences.
        """
        text = self._text
        if opener >= 0 and kind in QUOTES:
            return text[closer - 1] not in QUESTION_MARKS and BEGINNING.match(text, closer + 1) is not None
        return self._is_behind(opener, MARKS) and not CONTINUATION.match(text, closer + 1)
