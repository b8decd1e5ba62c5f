"""neologdn's rules as steps of a `tokenizer.json`: `Replace` with a string or a regular expression, nothing else.

Every client of `tokenizer.json` implements `Replace` alike. `Precompiled` character maps would take a quarter of the
time, but JavaScript's `@huggingface/tokenizers` does not read the map: it applies NFKC and deletes control characters.

A step costs 0.4 µs a line where it can look for a first byte, which it can for literal alternatives (`a|b`), and three
times that for a bracket of characters beyond ASCII.
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
"""What stands first in a stretch and is taken away from it in the end."""
BYTE_ORDER_MARK = CONVERSIONS[BYTE_ORDER][0]
_LINE_MARK = rf"{BYTE_ORDER_MARK}(?<=\n{BYTE_ORDER_MARK})"


def replace(pattern: str, content: str) -> dict[str, Any]:
    """The step that puts `content` in place of what a regular expression finds."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def neologdn(tilde: Tilde, remove_space: bool, mark: str) -> list[dict[str, Any]]:
    """neologdn inside a text: a stretch begins as if a Latin character stood before it, and ends as a line does.

    Args:
        tilde, remove_space: neologdn's options.
        mark: what may stand between the last space and the stretch's end, as a regular expression.
    """
    tables = CharacterTables(tilde)
    return [
        *(_without_tildes(remove_space) if tilde == "remove" else []),
        *_replaced(_forms(tables)),
        replace(f"-?(?:{'|'.join(CONVERSIONS[HYPHEN][0])})+", "-"),
        replace(_spaces(tables, mark) if remove_space else rf"{_LINE_MARK}| (?=\n|{mark}\z)", ""),
        replace("ーー+", "ー"),
        *_replaced(_joins(tables)),
        replace(f"{MARK}(?:{'|'.join(map(chr, tables.joined))})", ""),
    ]


def _without_tildes(remove_space: bool) -> list[dict[str, Any]]:
    """Tildes go. What a text's start drops is looked for where its first character stood, so something stays there."""
    tildes, spaces = _bracket(map(ord, TILDES)), _bracket(map(ord, CONVERSIONS[SPACE][0]))
    return [
        *([replace(rf"\A[{tildes}](?=[{tildes}]*[{spaces}])", " ")] if remove_space else []),
        replace(rf"\A[{tildes}](?=[{tildes}]*{BYTE_ORDER_MARK})", KEPT),
        replace(f"[{tildes}]", ""),
    ]


def _forms(tables: CharacterTables) -> dict[str, str]:
    """What characters become whatever stands beside them: all but the hyphens, which are joined."""
    changing = (tables.form != np.arange(UNITS)).nonzero()[0]
    return {chr(code): chr(tables.form[code]) for code in changing if chr(code) not in CONVERSIONS[HYPHEN][0]}


def _joins(tables: CharacterTables) -> dict[str, str]:
    """Kana before a voicing mark → the voiced kana and `MARK`, before a voicing mark that then goes.

    One step for both would move the kana's offset to the voicing mark.
    """
    return {
        f"{chr(kana)}(?={chr(mark)})": chr(joined[kana]) + MARK
        for mark, joined in tables.joined.items()
        for kana in _staying(tables, joined > 0)
    }


def _replaced(forms: dict[str, str]) -> list[dict[str, Any]]:
    """One step for each form; no form holds another one's key, so their order does not matter."""
    keys: dict[str, list[str]] = {}
    for key, form in forms.items():
        keys.setdefault(form, []).append(key)
    return [replace("|".join(alternatives), form) for form, alternatives in keys.items()]


def _spaces(tables: CharacterTables, mark: str) -> str:
    """Spaces that go: before what ends them, at a line's ends, after what does not hold them, after another space."""
    holds = _bracket(code for code in _staying(tables, tables.holds_space) if chr(code) != " ")
    ends = _bracket(_staying(tables, tables.ends_space))
    return rf"(?<=\n) +{BYTE_ORDER_MARK}| +(?=[{ends}]|{mark}\z)| (?<=[^{holds}] ) *|{_LINE_MARK}"


def _staying(tables: CharacterTables, flags: Flags) -> list[int]:
    """The flagged characters that stay what they are: all there are once `_forms` have been replaced."""
    codes: list[int] = (flags & (tables.form == np.arange(UNITS))).nonzero()[0].tolist()
    return codes


def _bracket(codes: Iterable[int]) -> str:
    """The inside of a bracket expression."""
    flags = np.zeros(UNITS, np.bool_)
    flags[list(codes)] = True
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0).nonzero()[0].tolist()
    return "".join(rf"\x{{{start:x}}}-\x{{{end - 1:x}}}" for start, end in zip(edges[::2], edges[1::2], strict=True))
