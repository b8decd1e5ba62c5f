"""neologdn's rules, applied with numpy to all lines of a text at once."""

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
    codes,
)

Indexes = npt.NDArray[np.intp]


class NormalizedText:
    """One text under neologdn's rules.

    A newline is put before and after it, so that every unit has neighbours. Only the *hits*, the h units that have a
    kind, can change.

    Args:
        text: any number of lines.
        tables: what is known of each unit.
        remove_space: neologdn's option.

    Raises:
        UnicodeEncodeError: the text holds a lone surrogate.
    """

    def __init__(self, text: str, tables: CharacterTables, remove_space: bool) -> None:
        self._tables = tables
        self._remove_space = remove_space
        self._units = codes(f"\n{text}\n")
        self._kinds = tables.kind.take(self._units)
        self._hits: Indexes = (self._kinds != NONE).nonzero()[0]
        self._hit_kinds = self._kinds[self._hits]
        units = self._units[self._hits]
        self._forms = tables.form[units]
        self._changed: Flags = self._forms != units
        self._gone: Flags = np.zeros(len(units), np.bool_)
        self._joined: list[tuple[Indexes, Units]] = []
        self._run_starts: Indexes | None = None
        present = _count(self._hit_kinds)
        for kind, rule in _RULES:
            if present[kind]:
                which = (self._hit_kinds == kind).nonzero()[0]
                rule(self, which, self._hits[which])
        self._changed |= self._gone

    def text(self) -> str | None:
        """The normalised text; None where it is what it was."""
        if not self._changed.any():
            return None
        units = self._units.copy()
        units[self._hits] = self._forms
        for at, voiced in self._joined:
            units[at] = voiced
        if self._gone.any():
            stays = np.ones(len(units), np.bool_)
            stays[self._hits[self._gone]] = False
            units = units[stays]
        return units[1:-1].tobytes().decode("utf-16-le")

    def counts(self) -> Iterator[tuple[str, int]]:
        """How many characters of each kind were removed or replaced, zeros left out."""
        changed, removed = _count(self._hit_kinds[self._changed]), _count(self._hit_kinds[self._gone])
        for kind, gone, all_ in zip(KINDS, removed, changed, strict=True):
            if gone:
                yield f"{kind}.removed", gone
            if all_ > gone:
                yield f"{kind}.replaced", all_ - gone

    def _spaces(self, which: Indexes, at: Indexes) -> None:
        """Of a run of spaces one stays, and only after a Latin character and before one that is not Japanese."""
        if not self._remove_space:
            self._gone[which] = self._units[at + 1] == NEWLINE
            return
        first, last = self._kinds[at - 1] != SPACE, self._kinds[at + 1] != SPACE
        self._run_starts = at[first]
        stays = self._tables.holds_space[self._units[self._run_starts - 1]]
        stays &= ~self._tables.ends_space[self._units[at[last] + 1]]
        self._gone[which] = True
        self._gone[which[first][stays]] = False

    def _long_vowels(self, which: Indexes, at: Indexes) -> None:
        """Of a run of long vowel marks the first stays."""
        self._gone[which] = self._kinds[self._before(at)] == LONG_VOWEL

    def _hyphens(self, which: Indexes, at: Indexes) -> None:
        """A hyphen goes after a hyphen."""
        self._gone[which] = self._tables.form[self._units[at - 1]] == ord("-")

    def _byte_order_marks(self, which: Indexes, at: Indexes) -> None:
        """The first byte order mark goes where it comes to stand at a line's start."""
        self._gone[which] = self._units[self._before(at)] == NEWLINE

    def _voicing_marks(self, which: Indexes, at: Indexes) -> None:
        """A voicing mark joins the kana before it."""
        for mark, joined in self._tables.joined.items():
            ours = self._forms[which] == mark
            before = self._before(at[ours])
            voiced = joined[self._units[before]]
            joins = voiced > 0
            self._gone[which[ours][joins]] = True
            self._joined.append((before[joins], voiced[joins]))

    def _before(self, at: Indexes) -> Indexes:
        """The place before each, removed spaces passed over."""
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
"""Spaces come first: the other rules look past the removed ones."""


def _count(kinds: npt.NDArray[np.uint8]) -> list[int]:
    counts: list[int] = np.bincount(kinds, minlength=len(KINDS)).tolist()
    return counts
