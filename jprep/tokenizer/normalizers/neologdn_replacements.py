"""neologdn's rules as steps of a `tokenizer.json`, using only `Replace` with strings and regular expressions.

Every client of `tokenizer.json` implements `Replace` in the same way. `Precompiled` character maps would take a quarter
of the time, but JavaScript's `@huggingface/tokenizers` ignores the map: it applies NFKC and deletes control characters.

A step takes 0.4 µs per line if the search can use a first byte, which is the case for literal alternatives (`a|b`), and
three times as long for a character class beyond ASCII.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jprep.corpus.normalizers.neologdn_tables import (
    BYTE_ORDER,
    CONVERSIONS,
    HYPHEN,
    SPACE,
    TILDES,
    UNITS,
    CharacterTables,
    Flags,
    Tilde,
)

MARK = "\x1e"
KEPT = "\x1f"
"""Markers at the start of a stretch, removed in the end."""
BYTE_ORDER_MARK = CONVERSIONS[BYTE_ORDER][0]
_LINE_MARK = rf"{BYTE_ORDER_MARK}(?<=\n{BYTE_ORDER_MARK})"


def replace(pattern: str, content: str) -> dict[str, Any]:
    """Return a step that replaces the matches of a regular expression."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def neologdn(tilde: Tilde, remove_space: bool, mark: str, *, keep_hangul: bool = False) -> list[dict[str, Any]]:
    """Return neologdn's rules for a stretch of text, which begins as if after a Latin character and ends like a line.

    Args:
        tilde, remove_space: neologdn's options.
        mark: regular expression of what may follow the last space of a stretch.
        keep_hangul: whether one of the spaces before or after Hangul stays.
    """
    removed = _spaces_beside_hangul if keep_hangul else _spaces
    tables = CharacterTables(tilde)
    return [
        *(_without_tildes(remove_space) if tilde == "remove" else []),
        *replace_all(_forms(tables)),
        replace(f"-?(?:{'|'.join(CONVERSIONS[HYPHEN][0])})+", "-"),
        replace(removed(tables, mark) if remove_space else rf"{_LINE_MARK}| (?=\n|{mark}\z)", ""),
        replace("ーー+", "ー"),
        *replace_all(_joins(tables)),
        replace(f"{MARK}(?:{'|'.join(map(chr, tables.joined))})", ""),
    ]


def _without_tildes(remove_space: bool) -> list[dict[str, Any]]:
    """Return steps that remove tildes. A marker remains where the start of a text has to be recognised later."""
    tildes, spaces = _bracket(map(ord, TILDES)), _bracket(map(ord, CONVERSIONS[SPACE][0]))
    return [
        *([replace(rf"\A[{tildes}](?=[{tildes}]*[{spaces}])", " ")] if remove_space else []),
        replace(rf"\A[{tildes}](?=[{tildes}]*{BYTE_ORDER_MARK})", KEPT),
        replace(f"[{tildes}]", ""),
    ]


def _forms(tables: CharacterTables) -> dict[str, str]:
    """Return replacements of single characters independent of context: all except hyphens, which are merged."""
    changing = (tables.form != np.arange(UNITS)).nonzero()[0]
    return {chr(code): chr(tables.form[code]) for code in changing if chr(code) not in CONVERSIONS[HYPHEN][0]}


def _joins(tables: CharacterTables) -> dict[str, str]:
    """Return kana before a voicing mark → the voiced kana and `MARK`; the voicing mark is removed by a later step.

    A single step for both would move the kana's offset to the voicing mark.
    """
    return {
        f"{chr(kana)}(?={chr(mark)})": chr(joined[kana]) + MARK
        for mark, joined in tables.joined.items()
        for kana in _staying(tables, joined > 0)
    }


def replace_all(forms: dict[str, str]) -> list[dict[str, Any]]:
    """Return one step per replacement. Their order must not matter: no replacement contains what another one replaces.

    Args:
        forms: regular expression → its replacement.
    """
    keys: dict[str, list[str]] = {}
    for key, form in forms.items():
        keys.setdefault(form, []).append(key)
    return [replace("|".join(alternatives), form) for form, alternatives in keys.items()]


def _spaces(tables: CharacterTables, mark: str) -> str:
    """Return a regular expression of the spaces to remove.

    These are spaces before certain characters, at the ends of a line, after characters that do not keep them, and after
    another space.
    """
    holds = _bracket(code for code in _staying(tables, tables.holds_space) if chr(code) != " ")
    ends = _bracket(_staying(tables, tables.ends_space))
    return rf"(?<=\n) +{BYTE_ORDER_MARK}| +(?=[{ends}]|{mark}\z)| (?<=[^{holds}] ) *|{_LINE_MARK}"


def _spaces_beside_hangul(tables: CharacterTables, mark: str) -> str:
    """Return a regular expression of the spaces to remove; see `_spaces`. One of a run beside Hangul is not."""
    hangul = _bracket(tables.hangul.nonzero()[0].tolist())
    holds = hangul + _bracket(code for code in _staying(tables, tables.holds_space) if chr(code) != " ")
    ends = _bracket(code for code in _staying(tables, tables.ends_space) if chr(code) != "\n")
    kept = rf"(?<![{hangul}]) +(?=[{ends}])|(?!\A) +(?= [{hangul}])| (?<=[^{holds}] ) *(?![ {hangul}])"
    return rf"(?<=\n) +{BYTE_ORDER_MARK}?|(?<=\A ) +| +(?=\n|{mark}\z)|{kept}|{_LINE_MARK}"


def _staying(tables: CharacterTables, flags: Flags) -> list[int]:
    """Return the flagged characters that `_forms` does not replace: the only ones left at that point."""
    codes: list[int] = (flags & (tables.form == np.arange(UNITS))).nonzero()[0].tolist()
    return codes


def _bracket(codes: Iterable[int]) -> str:
    """Return the inside of a character class."""
    flags = np.zeros(UNITS, np.bool_)
    flags[list(codes)] = True
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0).nonzero()[0].tolist()
    return "".join(rf"\x{{{start:x}}}-\x{{{end - 1:x}}}" for start, end in zip(edges[::2], edges[1::2], strict=True))
