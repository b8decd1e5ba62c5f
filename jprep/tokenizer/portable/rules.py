"""neologdn's rules as steps of a `tokenizer.json`: `Replace` with a regular expression, `Precompiled` character maps.

Two things shape the steps. Time: a step costs 0.3 µs a line where it can look for a first byte, which it can for
literal alternatives (`a|b`), and three times that for a bracket of characters beyond ASCII. And the map: it looks at
graphemes, whole where they are below six bytes, takes the shortest key that the grapheme begins with, and drops the
rest of it. So `MARK` is put wherever a rest would be dropped; text never holds it, and the second map deletes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from jprep.corpus.normalizers._neologdn_tables import (
    BYTE_ORDER,
    CONVERSIONS,
    HYPHEN,
    SPACE,
    TILDES,
    UNITS,
    YEN,
    Flags,
    Tables,
    Tilde,
)
from jprep.tokenizer.portable.charsmap import charsmap

MARK = "\x1e"
KEPT = "\x1f"
"""What stands first in a stretch and is taken away from it in the end."""
BYTE_ORDER_MARK = CONVERSIONS[BYTE_ORDER][0]
_LINE_MARK = rf"{BYTE_ORDER_MARK}(?<=\n{BYTE_ORDER_MARK})"
_THREE_BYTES = 0x800

_JOINERS = {"ﾞ": "\u0483", "ﾟ": "\u0484"}
"""Voicing mark → what stands for it, from where it joins a kana to the second map: a character of two bytes that makes
one grapheme with the kana, of five bytes."""
_EXTENDERS = "|".join(
    chr(code)
    for start, end in ((0x300, 0x36F), (0x483, 0x489), (0x591, 0x5C7), (0x610, 0x61A), (0x64B, 0x65F), (0x670, 0x670),
                       (0x6D6, 0x6ED), (0x711, 0x711), (0x730, 0x74A), (0x7A6, 0x7B0), (0x7EB, 0x7F3), (0x7FD, 0x7FD))
    for code in range(start, end + 1)
)  # fmt: skip
"""Every character of two bytes that joins the grapheme before it. With a longer one a key of three bytes makes six."""
_PREPENDED = r"\x{600}-\x{1cff}\x{11000}-\x{11fff}"
"""Blocks that hold every character that joins the grapheme after it."""


def replace(pattern: str, content: str) -> dict[str, Any]:
    """The step that puts `content` in place of what a regular expression finds."""
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def neologdn(tilde: Tilde, remove_space: bool, mark: str) -> list[dict[str, Any]]:
    """neologdn inside a text: a stretch begins as if a Latin character stood before it, and ends as a line does.

    Args:
        tilde, remove_space: neologdn's options.
        mark: what may stand between the last space and the stretch's end, as a regular expression.
    """
    tables = Tables(tilde)
    forms = _forms(tables)
    return [
        *(_without_tildes(remove_space) if tilde == "remove" else []),
        replace(f"(?<=[{_bracket(map(ord, forms))}])(?={_EXTENDERS})", MARK),
        _map(forms),
        *([replace("~", "〜")] if tilde == "normalize_zenkaku" else []),
        replace(*CONVERSIONS[YEN]),
        replace(f"-?(?:{'|'.join(CONVERSIONS[HYPHEN][0])})+", "-"),
        replace(_spaces(tables, mark) if remove_space else rf"{_LINE_MARK}| (?=\n|{mark}\z)", ""),
        replace("ーー+", "ー"),
        *_voicing_marks(_joins(tables)),
    ]


def _without_tildes(remove_space: bool) -> list[dict[str, Any]]:
    """Tildes go. What a text's start drops is looked for where its first character stood, so something stays there."""
    tildes, spaces = _bracket(map(ord, TILDES)), _bracket(map(ord, CONVERSIONS[SPACE][0]))
    return [
        *([replace(rf"\A[{tildes}](?=[{tildes}]*[{spaces}])", " ")] if remove_space else []),
        replace(rf"\A[{tildes}](?=[{tildes}]*{BYTE_ORDER_MARK})", KEPT),
        replace(f"[{tildes}]", ""),
    ]


def _forms(tables: Tables) -> dict[str, str]:
    """What characters of three bytes become, whatever stands around them; the hyphens have a step of their own."""
    changing = (tables.form != np.arange(UNITS)).nonzero()[0]
    return {
        chr(code): chr(tables.form[code])
        for code in changing
        if code >= _THREE_BYTES and chr(code) not in CONVERSIONS[HYPHEN][0]
    }


def _joins(tables: Tables) -> dict[str, str]:
    """Kana and joiner → the voiced kana."""
    return {
        chr(kana) + _JOINERS[chr(mark)]: chr(joined[kana])
        for mark, joined in tables.joined.items()
        for kana in _staying(tables, joined > 0)
    }


def _spaces(tables: Tables, mark: str) -> str:
    """Spaces that go: before what ends them, at a line's ends, after what does not hold them, after another space."""
    holds = _bracket(code for code in _staying(tables, tables.holds_space) if chr(code) != " ")
    ends = _bracket(_staying(tables, tables.ends_space))
    return rf"(?<=\n) +{BYTE_ORDER_MARK}| +(?=[{ends}]|{mark}\z)| (?<=[^{holds}] ) *|{_LINE_MARK}"


def _voicing_marks(joins: dict[str, str]) -> list[dict[str, Any]]:
    """Voicing marks join the kana before them. `MARK` keeps the grapheme of kana and joiner apart from its neighbours,
    and joiners that text holds apart from kana."""
    kana = {joiner: _bracket(ord(key[0]) for key in joins if key[1] == joiner) for joiner in _JOINERS.values()}
    marks, joiners, every = "|".join(_JOINERS), "|".join(kana), _bracket(ord(key[0]) for key in joins)
    return [
        replace(f"(?<=[{_PREPENDED}])(?=[{every}](?:{marks}))|(?<=[{every}])(?={joiners})", MARK),
        *(replace(f"{mark}(?<=[{kana[joiner]}]{mark})", joiner + MARK) for mark, joiner in _JOINERS.items()),
        _map(joins | {MARK: ""}),
    ]


def _map(forms: dict[str, str]) -> dict[str, Any]:
    return {"type": "Precompiled", "precompiled_charsmap": charsmap(forms)}


def _staying(tables: Tables, flags: Flags) -> list[int]:
    """The flagged characters that stay what they are: all there are once the first map has been applied."""
    codes: list[int] = (flags & (tables.form == np.arange(UNITS))).nonzero()[0].tolist()
    return codes


def _bracket(codes: Iterable[int]) -> str:
    """The inside of a bracket expression."""
    flags = np.zeros(UNITS, np.bool_)
    flags[list(codes)] = True
    edges = np.diff(flags.astype(np.int8), prepend=0, append=0).nonzero()[0].tolist()
    return "".join(rf"\x{{{start:x}}}-\x{{{end - 1:x}}}" for start, end in zip(edges[::2], edges[1::2], strict=True))
