"""Character tables of neologdn 0.5.6, over UTF-16 code units.

neologdn changes no character outside the Basic Multilingual Plane, so the two units of a surrogate pair need no special
treatment.
"""

from __future__ import annotations

import unicodedata
from typing import Literal

import numpy as np
import numpy.typing as npt

Units = npt.NDArray[np.uint16]
Flags = npt.NDArray[np.bool_]

Tilde = Literal["remove", "ignore", "normalize", "normalize_zenkaku"]

UNITS = 0x10000
NEWLINE = ord("\n")


KINDS = (
    "none",
    "spaces",
    "long_vowels",
    "hyphens",
    "tildes",
    "full_width",
    "half_width_kana",
    "voicing_marks",
    "quotes",
    "yen_signs",
    "byte_order_marks",
)
"""Kinds of characters that neologdn may change, by number. The names are used for the counts."""
NONE, SPACE, LONG_VOWEL, HYPHEN, TILDE, FULL_WIDTH, HALF_WIDTH_KANA, VOICING, QUOTE, YEN, BYTE_ORDER = range(len(KINDS))

TILDES = "~∼∾〜〰～"
_LEFT_ALONE = "＂＇－＼｀"
_FULL_WIDTH = "".join(chr(code) for code in range(0xFF01, 0xFF5E) if chr(code) not in _LEFT_ALONE)
_HALF_WIDTH_KANA = "".join(chr(code) for code in range(0xFF61, 0xFF9E) if code != 0xFF70)

HANGUL = ((0x1100, 0x1200), (0x3130, 0x3190), (0xA960, 0xA980), (0xAC00, 0xD7FC))
"""Blocks of Hangul: Korean has spaces between its words."""

CONVERSIONS: dict[int, tuple[str, str]] = {
    SPACE: (" 　", "  "),
    LONG_VOWEL: ("﹣－ｰ—―─━ー", "ー" * 8),
    HYPHEN: ("˗֊‐‑‒–⁃⁻₋−", "-" * 10),
    FULL_WIDTH: (_FULL_WIDTH, unicodedata.normalize("NFKC", _FULL_WIDTH)),
    HALF_WIDTH_KANA: (_HALF_WIDTH_KANA, unicodedata.normalize("NFKC", _HALF_WIDTH_KANA)),
    VOICING: ("゛゜ﾞﾟ", "ﾞﾟﾞﾟ"),
    QUOTE: ("‘’“”", '`\'""'),
    YEN: ("\u00a5", "\\"),
    BYTE_ORDER: ("\ufeff", "\ufeff"),
}
"""Kind → (characters, replacement of each character without regard to its neighbors)."""

JOINS: dict[str, tuple[str, str]] = {
    "ﾞ": ("カキクケコサシスセソタチツテトハヒフヘホウう", "ガギグゲゴザジズゼゾダヂヅデドバビブベボヴゔ"),
    "ﾟ": ("ハヒフヘホはひふへほ", "パピプペポぱぴぷぺぽ"),
}
"""Voicing mark → (kana that it combines with, the combined kana)."""


class CharacterTables:
    """The tables for one setting of the option `tilde`.

    Attributes:
        kind: kind of each unit as an index of `KINDS`, shape (65536,); NONE for units that never change.
        form: replacement of each unit, shape (65536,).
        holds_space: whether a space after this unit can be kept, shape (65536,).
        ends_space: whether a space before this unit is removed, shape (65536,).
        hangul: whether this unit is Hangul, shape (65536,).
        joined: voicing mark → combination of each unit with the mark, or 0 if there is none, shape (65536,) each.
    """

    def __init__(self, tilde: Tilde) -> None:
        self.kind = np.zeros(UNITS, np.uint8)
        self.form: Units = np.arange(UNITS, dtype=np.uint16)
        for kind, (characters, forms) in CONVERSIONS.items():
            self._convert(kind, characters, forms)
        if tilde.startswith("normalize"):
            self._convert(TILDE, TILDES, ("~" if tilde == "normalize" else "〜") * len(TILDES))
        self.holds_space: Flags = self.form < 0x80
        self.holds_space[utf16_units("*＊\n")] = False
        self.ends_space: Flags = _wide()[self.form]
        # neologdn removes the space only before characters of its plain table.
        self.ends_space[utf16_units(TILDES + CONVERSIONS[LONG_VOWEL][0] + CONVERSIONS[HYPHEN][0])] = False
        self.ends_space[NEWLINE] = True
        self.hangul: Flags = np.zeros(UNITS, np.bool_)
        for start, end in HANGUL:
            self.hangul[start:end] = True
        self.joined = {ord(mark): self._join(kana, voiced) for mark, (kana, voiced) in JOINS.items()}

    def _convert(self, kind: int, characters: str, forms: str) -> None:
        self.kind[utf16_units(characters)] = kind
        self.form[utf16_units(characters)] = utf16_units(forms)

    def _join(self, kana: str, voiced: str) -> Units:
        plain = np.zeros(UNITS, np.uint16)
        plain[utf16_units(kana)] = utf16_units(voiced)
        return plain[self.form]


def utf16_units(text: str) -> Units:
    """Return the UTF-16 code units of a text.

    Raises:
        UnicodeEncodeError: the text holds a lone surrogate.
    """
    return np.frombuffer(text.encode("utf-16-le"), np.dtype("<u2"))


def probe_text() -> str:
    """Return a text to compare an installed neologdn with these tables.

    It holds every character, and each special character beside each kind of neighbor.
    """
    special = [c for characters, _ in CONVERSIONS.values() for c in characters] + list(TILDES)
    contexts = [f"{c}{c} {c} é{c} a{c}a {c} a{c} カ{c}あ {c} あ*{c} *{c} は {c}う-{c}ー{c} ー{c}" for c in special]
    planes = (range(start, start + 0x100) for start in (*range(0, 0xD800, 0x100), *range(0xE000, UNITS, 0x100)))
    everything = [" ".join(chr(code) for code in plane if code != NEWLINE) for plane in planes]
    return "\n".join(contexts + everything)


def _wide() -> Flags:
    """Return which units belong to blocks whose characters take no space beside them."""
    wide = np.zeros(UNITS, np.bool_)
    for start, end in ((0x3001, 0x3100), (0x4E00, 0xA000), (0xFF00, 0xFFF0)):
        wide[start:end] = True
    return wide
