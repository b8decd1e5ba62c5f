"""Find the sentence boundaries of long texts: the same as `lines.find_ends`, for all end marks at once.

Lines whose brackets all pair up, with nothing to decide at a closing bracket, are decided here; the others by
`lines.BracketLine`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jprep.corpus.code_points import CodePointTable, code_points
from jprep.corpus.splitters.lines import BracketLine
from jprep.corpus.splitters.patterns import (
    BEGINS,
    CLOSERS,
    CLOSING,
    ENDS_HERE,
    JAPANESE,
    LATIN,
    MARK_INSIDE_LINE,
    MARKS,
    MAX_BRACKET_CHARS,
    MAX_INSERTION_CHARS,
    OPENERS,
    PERIOD,
    PERIODS,
    QUESTION_MARKS,
    QUOTES,
    SPACES,
)

Places = NDArray[np.int64]
Choice = NDArray[np.bool_]

_MARK, _PERIOD, _QUESTION, _BRACKET, _NEWLINE = (1 << bit for bit in range(5))
_SPACE, _MAY_CONTINUE, _LETTER, _BEFORE_PERIOD = (1 << bit for bit in range(5, 9))
_ENDER = _MARK | _PERIOD
_RELEVANT = _ENDER | _BRACKET | _NEWLINE
_ROUNDS = 3
"""Depth of brackets in brackets that is resolved here."""
_UNPAIRED = 127
"""The kind of the straight quotation mark, which both opens and closes."""

_CLASSES = {
    _MARK: f"[{MARKS}]",
    _PERIOD: f"[{PERIODS}]",
    _QUESTION: f"[{QUESTION_MARKS}]",
    _BRACKET: f"[{re.escape(''.join(OPENERS | CLOSERS))}]",
    _NEWLINE: r"\n",
    _SPACE: r"[^\S\n]",
    _MAY_CONTINUE: r"[^\S\n]|[を\-‐−–→～〜~=＝、，,‥…・/／なっのがにと]",
    _LETTER: f"[ァ-ヶ{LATIN}]",
    _BEFORE_PERIOD: f"[{JAPANESE}{CLOSING}]",
}
"""Flags of characters. `_MAY_CONTINUE` is what may continue a sentence: what follows decides."""
_AFTER_MARK = re.compile(rf"{ENDS_HERE}{SPACES}(?!\n|\Z)")
_AFTER_QUOTATION = re.compile(rf"{SPACES}(?={BEGINS})")
_AFTER_PERIOD = re.compile(rf"{PERIOD}{SPACES}(?!\n|\Z)")


def _flags(characters: list[str]) -> NDArray[np.uint16]:
    flags, joined = np.zeros(len(characters), np.uint16), "".join(characters)
    for flag, pattern in _CLASSES.items():
        for found in re.finditer(f"(?:{pattern})+", joined):
            flags[found.start() : found.end()] |= np.uint16(flag)
    return flags


_NUMBERS = {kind: number for number, kind in enumerate(dict.fromkeys(OPENERS.values()), 1)}
_QUOTATIONS = [_NUMBERS[kind] for kind in QUOTES - {'"'}]


def _kinds(characters: list[str]) -> NDArray[np.int8]:
    """Return the number of each bracket's kind: positive if it opens, negative if it closes, 0 for other characters."""
    kinds = {opener: _NUMBERS[kind] for opener, kind in OPENERS.items()}
    kinds |= {closer: -_NUMBERS[kind] for closer, kind in CLOSERS.items()} | {'"': _UNPAIRED}
    return np.array([kinds.get(character, 0) for character in characters], np.int8)


_FLAGS = CodePointTable(_flags)
_KINDS = CodePointTable(_kinds)


class _Runs(NamedTuple):
    """Runs of end marks.

    Attributes:
        stops: offset after the last mark of each run.
        lines: number of the line.
        after: flags of the character after it; those of a newline at the end of the text.
        last: flags of its last mark.
        marked: whether it has a mark other than a period.
        single: whether it is one mark.
    """

    stops: Places
    lines: Places
    after: NDArray[np.uint16]
    last: NDArray[np.uint16]
    marked: Choice
    single: Choice


def find_ends(text: str) -> Places:
    """Return the offsets at which sentences end, except ends of lines."""
    codes = code_points(text)
    flags = _FLAGS.of(codes)
    places = np.flatnonzero((flags & _RELEVANT) != 0)
    found = flags[places]
    newlines = places[(found & _NEWLINE) != 0]
    runs = _find_runs(flags, places[(found & _ENDER) != 0], newlines)
    inside = (runs.after & _NEWLINE) == 0
    if not inside.any():
        return np.zeros(0, np.int64)
    wanted = np.zeros(len(newlines) + 1, np.bool_)
    wanted[runs.lines[inside]] = True
    at = places[(found & _BRACKET) != 0]
    brackets = _Brackets(flags, at, _KINDS.of(codes[at]), newlines, runs, wanted)
    brackets.resolve_pairs()
    quotations = brackets.resolve_quotations()
    unresolved = brackets.unresolved
    alive = inside & ~brackets.removed & ~unresolved[runs.lines]
    ends = np.concatenate(
        [
            _ends_after_marks(text, runs, alive),
            _ends_after_periods(text, runs, alive, flags),
            _matched(_AFTER_QUOTATION, text, quotations + 1),
            _ends_of_lines(text, newlines, np.flatnonzero(unresolved)),
        ]
    )
    ends.sort()
    return ends


def _find_runs(flags: NDArray[np.uint16], places: Places, newlines: Places) -> _Runs:
    """Return the runs of end marks, which are at some places."""
    firsts = np.flatnonzero(np.diff(places, prepend=-2) != 1)
    lasts = np.append(firsts[1:], len(places)) - 1 if len(places) else firsts
    ends = places[lasts]
    after = flags.take(ends + 1, mode="clip") if len(flags) else flags
    after[ends + 1 == len(flags)] = _NEWLINE
    marks = (flags[places] & _MARK) != 0
    marked = np.logical_or.reduceat(marks, firsts) if len(places) else marks
    return _Runs(ends + 1, np.searchsorted(newlines, ends), after, flags[ends], marked, firsts == lasts)


class _Brackets:
    """The brackets of a text that are still to be resolved, and what the resolved ones decide.

    Args:
        flags: flags of the text's characters.
        places: offsets of the brackets.
        kinds: their kinds.
        newlines: offsets of the newlines.
        runs: the runs of end marks.
        wanted: whether brackets matter, by line.
    """

    def __init__(
        self,
        flags: NDArray[np.uint16],
        places: Places,
        kinds: NDArray[np.int8],
        newlines: Places,
        runs: _Runs,
        wanted: Choice,
    ) -> None:
        lines = np.searchsorted(newlines, places)
        chosen = wanted[lines]
        self._flags, self._stops, self._count = flags, runs.stops, len(newlines) + 1
        self._places, self._kinds, self._lines = places[chosen], kinds[chosen], lines[chosen]
        self._depth = np.zeros(len(runs.stops) + 1, np.int64)

    def resolve_pairs(self) -> None:
        """Take away pairs that decide nothing at their closing bracket, from the inner ones to the outer ones."""
        for _ in range(_ROUNDS):
            pairs = self._pairs()
            openers, closers = self._places[pairs], self._places[pairs + 1]
            empty = np.searchsorted(self._stops, openers, "right") == np.searchsorted(self._stops, closers, "right")
            chars = closers - openers - 1
            # Pairs of other lengths may be insertions: `BracketLine` looks at what is before them.
            certain = (chars <= MAX_BRACKET_CHARS) | (chars > MAX_INSERTION_CHARS)
            certain |= np.isin(self._kinds[pairs], _QUOTATIONS)
            resolved = empty | (certain & ((self._flags[closers - 1] & (_ENDER | _SPACE)) == 0))
            if not resolved.any():
                return
            short = resolved & (chars <= MAX_BRACKET_CHARS)
            self._remove_runs(openers[short], closers[short])
            left = np.ones(len(self._places), np.bool_)
            left[pairs[resolved]] = left[pairs[resolved] + 1] = False
            self._places, self._kinds, self._lines = self._places[left], self._kinds[left], self._lines[left]

    def resolve_quotations(self) -> Places:
        """Resolve lines in which only quotations with an end mark before their closing bracket are left.

        Returns:
            The closing brackets after a full stop: a sentence ends there if another one begins.
        """
        pairs = self._pairs()
        closers, lines = self._places[pairs + 1], self._lines[pairs]
        ended = np.isin(self._kinds[pairs], _QUOTATIONS) & ((self._flags[closers - 1] & _MARK) != 0)
        brackets, quotations = (np.bincount(each, minlength=self._count) for each in (self._lines, lines[ended]))
        resolved = brackets == 2 * quotations
        chosen = ended & resolved[lines]
        openers, closers = self._places[pairs[chosen]], closers[chosen]
        long = closers - openers > MAX_BRACKET_CHARS + 1
        self._remove_runs(np.where(long, closers - 1, openers), closers)
        self._lines = self._lines[~resolved[self._lines]]
        full_stops: Places = closers[(self._flags[closers - 1] & _QUESTION) == 0]
        return full_stops

    @property
    def removed(self) -> Choice:
        """Whether each run of end marks is in a pair in which no sentence ends."""
        inside: Choice = np.cumsum(self._depth[:-1]) > 0
        return inside

    @property
    def unresolved(self) -> Choice:
        """Whether brackets are left, by line."""
        found = np.zeros(self._count, np.bool_)
        found[self._lines] = True
        return found

    def _pairs(self) -> Places:
        """Return the indices of opening brackets that are followed by their closing brackets on the same line."""
        kinds, lines = self._kinds, self._lines
        found: Places = np.flatnonzero((kinds[:-1] > 0) & (kinds[1:] == -kinds[:-1]) & (lines[1:] == lines[:-1]))
        return found

    def _remove_runs(self, after: Places, until: Places) -> None:
        """Remove the runs of end marks that stop in some ranges, which do not overlap."""
        first, behind = (np.searchsorted(self._stops, each, "right") for each in (after, until))
        some = first < behind
        self._depth[first[some]] += 1
        self._depth[behind[some]] -= 1


def _ends_after_marks(text: str, runs: _Runs, alive: Choice) -> Places:
    chosen = alive & runs.marked
    doubtful = (runs.after & _MAY_CONTINUE != 0) | ((runs.last & _QUESTION != 0) & (runs.after & _LETTER != 0))
    return np.concatenate([runs.stops[chosen & ~doubtful], _matched(_AFTER_MARK, text, runs.stops[chosen & doubtful])])


def _ends_after_periods(text: str, runs: _Runs, alive: Choice, flags: NDArray[np.uint16]) -> Places:
    chosen = runs.stops[alive & runs.single & ~runs.marked]
    chosen = chosen[chosen > 1]
    return _matched(_AFTER_PERIOD, text, chosen[flags[chosen - 2] & _BEFORE_PERIOD != 0])


def _matched(pattern: re.Pattern[str], text: str, places: Places) -> Places:
    """Return the ends of a pattern's matches at some places."""
    found = [match.end() for place in places.tolist() if (match := pattern.match(text, place))]
    return np.array(found, np.int64)


def _ends_of_lines(text: str, newlines: Places, numbers: Places) -> Places:
    """Return the ends of sentences in some lines, one line after the other."""
    starts, stops = np.append(0, newlines + 1)[numbers].tolist(), np.append(newlines, len(text))[numbers].tolist()
    found = list[int]()
    for start, stop in zip(starts, stops, strict=True):
        if MARK_INSIDE_LINE.search(text, start, stop):
            found += BracketLine(text, start, stop).ends()
    return np.array(found, np.int64)
