"""Apply neologdn's rules to all lines of a text at once, with numpy."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from jprep.corpus.normalizers.neologdn_tables import (
    BYTE_ORDER,
    HYPHEN,
    KINDS,
    LONG_VOWEL,
    NEWLINE,
    NONE,
    SPACE,
    VOICING,
    CharacterTables,
    Flags,
    Units,
    utf16_units,
)

Indexes = npt.NDArray[np.intp]


class NormalizedText:
    """A text with neologdn's rules applied.

    A newline is added before and after the text, so that every unit has neighbors. Only units that have a kind in the
    tables can change: the h *hits*.

    Args:
        text: any number of lines.
        tables: the character tables.
        remove_space: option of neologdn: whether to remove spaces.
        keep_hangul: whether to keep one of the spaces before or after Hangul all the same.

    Raises:
        UnicodeEncodeError: the text holds a lone surrogate.
    """

    def __init__(self, text: str, tables: CharacterTables, remove_space: bool, *, keep_hangul: bool = False) -> None:
        self._tables = tables
        self._remove_space, self._keep_hangul, self._between_hangul = remove_space, keep_hangul, 0
        self._units = utf16_units(f"\n{text}\n")
        self._kinds = tables.kind.take(self._units)
        self._hits: Indexes = (self._kinds != NONE).nonzero()[0]
        self._hit_kinds = self._kinds[self._hits]
        units = self._units[self._hits]
        self._forms = tables.form[units]
        self._changed: Flags = self._forms != units
        self._removed: Flags = np.zeros(len(units), np.bool_)
        self._joined: list[tuple[Indexes, Units]] = []
        self._run_starts: Indexes | None = None
        present = _count(self._hit_kinds)
        for kind, rule in _RULES:
            if present[kind]:
                which = (self._hit_kinds == kind).nonzero()[0]
                rule(self, which, self._hits[which])
        self._changed |= self._removed

    def text(self) -> str | None:
        """Return the normalized text, or None if nothing changed."""
        if not self._changed.any():
            return None
        units = self._units.copy()
        units[self._hits] = self._forms
        for at, voiced in self._joined:
            units[at] = voiced
        if self._removed.any():
            stays = np.ones(len(units), np.bool_)
            stays[self._hits[self._removed]] = False
            units = units[stays]
        return units[1:-1].tobytes().decode("utf-16-le")

    def counts(self) -> Iterator[tuple[str, int]]:
        """Yield the number of removed and replaced characters of each kind, without zeros."""
        changed, removed = _count(self._hit_kinds[self._changed]), _count(self._hit_kinds[self._removed])
        for kind, gone, all_ in zip(KINDS, removed, changed, strict=True):
            if gone:
                yield f"{kind}.removed", gone
            if all_ > gone:
                yield f"{kind}.replaced", all_ - gone
        if self._between_hangul:
            yield "spaces.between_hangul", self._between_hangul

    def _spaces(self, which: Indexes, at: Indexes) -> None:
        """Keep one space of a run, and only after a Latin character and before one that is not Japanese."""
        if not self._remove_space:
            self._removed[which] = self._units[at + 1] == NEWLINE
            return
        first, last = self._kinds[at - 1] != SPACE, self._kinds[at + 1] != SPACE
        self._run_starts = at[first]
        stays = self._tables.holds_space[self._units[self._run_starts - 1]]
        stays &= ~self._tables.ends_space[self._units[at[last] + 1]]
        stays |= self._hangul(self._units[self._run_starts - 1], self._units[at[last] + 1])
        self._removed[which] = True
        self._removed[which[first][stays]] = False

    def _hangul(self, before: Units, after: Units) -> Flags:
        """Return which spaces stay because of the Hangul beside them; count what is removed between Hangul."""
        left, right = self._tables.hangul[before], self._tables.hangul[after]
        if self._keep_hangul:
            stays: Flags = (left & (after != NEWLINE)) | (right & (before != NEWLINE))
            return stays
        self._between_hangul = int(np.count_nonzero(left & right))
        return np.zeros(len(left), np.bool_)

    def _long_vowels(self, which: Indexes, at: Indexes) -> None:
        """Keep the first of a run of long vowel marks."""
        self._removed[which] = self._kinds[self._before(at)] == LONG_VOWEL

    def _hyphens(self, which: Indexes, at: Indexes) -> None:
        """Remove a hyphen after a hyphen."""
        self._removed[which] = self._tables.form[self._units[at - 1]] == ord("-")

    def _byte_order_marks(self, which: Indexes, at: Indexes) -> None:
        """Remove a byte order mark at the beginning of a line."""
        self._removed[which] = self._units[self._before(at)] == NEWLINE

    def _voicing_marks(self, which: Indexes, at: Indexes) -> None:
        """Combine a voicing mark with the kana before it."""
        for mark, joined in self._tables.joined.items():
            ours = self._forms[which] == mark
            before = self._before(at[ours])
            voiced = joined[self._units[before]]
            joins = voiced > 0
            self._removed[which[ours][joins]] = True
            self._joined.append((before[joins], voiced[joins]))

    def _before(self, at: Indexes) -> Indexes:
        """Return the index before each index, skipping removed spaces."""
        before = at - 1
        if self._run_starts is not None:
            spaces = self._kinds[before] == SPACE
            before[spaces] = self._run_starts[np.searchsorted(self._run_starts, at[spaces]) - 1] - 1
        return before


_RULES = (
    (SPACE, NormalizedText._spaces),
    (LONG_VOWEL, NormalizedText._long_vowels),
    (HYPHEN, NormalizedText._hyphens),
    (BYTE_ORDER, NormalizedText._byte_order_marks),
    (VOICING, NormalizedText._voicing_marks),
)
"""Spaces come first, since the other rules skip removed spaces."""


def _count(kinds: npt.NDArray[np.uint8]) -> list[int]:
    counts: list[int] = np.bincount(kinds, minlength=len(KINDS)).tolist()
    return counts
