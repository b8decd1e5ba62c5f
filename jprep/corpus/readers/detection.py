"""Detect the encoding of Japanese text: by marks, then by strict decoding in a fixed order, judged by plausibility."""

from __future__ import annotations

import codecs
import re
from collections import Counter
from functools import cache

from jprep.io.inputs.japanese_codecs import CP50221, CP51932

_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_ISO2022 = re.compile(rb"\x1b(?:\$[@B]|\$\([@BDOPQ]|\([IJ])")
_HIGH = re.compile(rb"[\x80-\xff]")
_SEVEN_BIT = ("iso2022_jp", "iso2022_jp_ext", CP50221)
"""Encodings with escape sequences, in the order in which they are tried; the first that decodes all bytes wins."""

_EIGHT_BIT = ("euc_jp", "cp932", CP51932, "euc_jis_2004")
"""Encodings that are tried in this order; of equally plausible results the first one wins."""

_WITH_EXTENSIONS = {"euc_jp": CP51932, "iso2022_jp": CP50221, "iso2022_jp_ext": CP50221}

_PLAUSIBLE = 0.6
_COMMON = re.compile(
    "[\t\n\r -~\u3000-\u3003\u3005-\u301f\u3041-\u3093\u309d\u309e\u30a1-\u30f6\u30fb-\u30fe\uff01-\uff5d]"
)
_LEVEL_1 = range(0xB0, 0xD0)  # leading bytes of the common kanji in EUC-JP


def detect_encoding(data: bytes, *, complete: bool = True, also: tuple[str, ...] = ()) -> str:
    """Return the encoding of Japanese text, by a name known to Python, or "" if none fits.

    The rule: a byte order mark; ISO-2022-JP if there are its escape sequences and no byte over 0x7F; UTF-8 if the bytes
    are valid UTF-8 (ASCII is); else that one of EUC-JP, Shift_JIS (cp932), EUC-JP with the characters of NEC and IBM
    (cp51932) and EUC-JIS-2004 that decodes all bytes and gives the largest share of kana, punctuation, ASCII and common
    kanji, if the share is 0.6 or more.

    Args:
        data: the text, or its beginning.
        complete: whether the data are all of the text; otherwise a character may be cut at the end.
        also: further encodings, which are tried if none of these fits.
    """
    for mark, name in _BOMS.items():
        if data.startswith(mark):
            return name
    if _ISO2022.search(data) and not _HIGH.search(data):
        return next((name for name in _SEVEN_BIT if _decodes(data, name, complete)), "")
    if _decodes(data, "utf-8", complete):
        return "utf-8"
    return _most_plausible(data, _EIGHT_BIT, complete) or _most_plausible(data, also, complete)


def with_extensions(encoding: str) -> str:
    """Return the encoding that reads the rest of a text whose beginning was found to be in one.

    The characters of NEC and IBM may come later; what is valid without them is the same text.
    """
    return _WITH_EXTENSIONS.get(encoding, encoding)


def _most_plausible(data: bytes, encodings: tuple[str, ...], complete: bool) -> str:
    """Return the encoding with the largest share of common characters, the first of several; "" if none has enough."""
    shares = {name: _plausibility(data, name, complete) for name in encodings}
    best = max(shares, key=lambda name: shares[name], default="")
    return best if best and shares[best] >= _PLAUSIBLE else ""


def _decodes(data: bytes, encoding: str, complete: bool) -> bool:
    return _decoded(data, encoding, complete) is not None


def _decoded(data: bytes, encoding: str, complete: bool) -> str | None:
    try:
        return codecs.getincrementaldecoder(encoding)("strict").decode(data, complete)
    except UnicodeDecodeError:
        return None


def _plausibility(data: bytes, encoding: str, complete: bool) -> float:
    """Return the share of the non-ASCII characters that are common in Japanese; -1 if the bytes are not valid."""
    text = _decoded(data, encoding, complete)
    if text is None:
        return -1.0
    counts = Counter(char for char in text if char >= "\x80")
    return sum(count for char, count in counts.items() if _is_common(char)) / max(1, counts.total())


@cache
def _is_common(char: str) -> bool:
    """Return whether a character is common in Japanese text: kana, punctuation, full-width ASCII, JIS level 1 kanji."""
    if _COMMON.match(char):
        return True
    code = char.encode("euc_jp", "ignore")
    return len(code) == 2 and code[0] in _LEVEL_1
