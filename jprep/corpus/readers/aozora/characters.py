"""Resolve characters that Aozora Bunko's files describe: gaiji by code, accented letters, repetition marks."""

from __future__ import annotations

import re
import unicodedata

from jprep.corpus.document import Tally

GETA = "〓"
"""Stands for a character that has no code in the file."""

_GAIJI = re.compile(r"※［＃([^［］\n]*)］")
_UNICODE = re.compile(r"U\+([0-9A-Fa-f]{4,6})")
_JIS = re.compile(r"(?<![0-9-])([12])-([0-9]{1,2})-([0-9]{1,2})(?![0-9-])")
_BRACKETS = re.compile(r"〔([^〔〕\n]*)〕")
_ACCENT = re.compile(
    r"[aA][eE]&|[oO][eE]&|[aAs]&|[oO]/|[!?]@|[AEIOUaeiou][`^_]|[CGHJSWYcghjswy]\^|[AEIOUYaeiouy]'|[ANOIUanoiu]~"
    r"|[AEIOUYaeiouy]:(?=[A-Za-z])|[Cc],(?=[A-Za-z])"
)
# A colon or comma before a space is punctuation.
_MARKS = {"`": "\u0300", "'": "\u0301", "^": "\u0302", "~": "\u0303", ":": "\u0308", ",": "\u0327", "_": "\u0304"}
_LIGATURES = {
    "a&": "å", "A&": "Å", "o/": "ø", "O/": "Ø", "s&": "ß", "ae&": "æ", "AE&": "Æ", "Ae&": "Æ", "oe&": "œ", "OE&": "Œ",
    "Oe&": "Œ", "!@": "¡", "?@": "¿",
}  # fmt: skip


def resolve_gaiji(text: str, tally: Tally) -> str:
    """Replace notes such as `※［＃「…」、第3水準1-84-77］` by the character, or by 〓 where they give no code."""

    def resolve(note: re.Match[str]) -> str:
        char = _character(note[1])
        tally["gaiji.resolved" if char else "gaiji.unresolved"] += 1
        return char or GETA

    return _GAIJI.sub(resolve, text)


def _character(note: str) -> str:
    """Return the character of a note's Unicode number, or else of its plane, row and cell in JIS X 0213; or ""."""
    if found := _UNICODE.search(note):
        number = int(found[1], 16)
        valid = 0xA0 <= number <= 0x10FFFF and not 0xD800 <= number < 0xE000
        return chr(number) if valid else ""
    for plane, row, cell in _JIS.findall(note):
        if 1 <= int(row) <= 94 and 1 <= int(cell) <= 94:
            code = bytes([0xA0 + int(row), 0xA0 + int(cell)])
            return ((b"\x8f" if plane == "2" else b"") + code).decode("euc_jis_2004", "ignore")
    return ""


def resolve_accents(text: str, tally: Tally) -> str:
    """Replace accents that are written apart, `〔cafe'〕`, and their brackets. Other brackets stay."""

    def resolve(found: re.Match[str]) -> str:
        inner = _ACCENT.sub(_accented, found[1])
        if inner == found[1]:
            return found[0]
        tally["accents.resolved"] += 1
        return inner

    return _BRACKETS.sub(resolve, text)


def _accented(found: re.Match[str]) -> str:
    pair = found[0]
    if pair in _LIGATURES:
        return _LIGATURES[pair]
    composed = unicodedata.normalize("NFC", pair[0] + _MARKS.get(pair[1], pair[1:]))
    return composed if len(composed) == 1 else pair


def resolve_repetition(text: str, tally: Tally) -> str:
    """Replace the repetition mark of two characters' height, written `／＼` or `／″＼`, by the characters for it."""
    if found := text.count("／＼") + text.count("／″＼"):
        tally["repetition.resolved"] += found
        text = text.replace("／″＼", "〴〵").replace("／＼", "〳〵")
    return text
