"""Radicals that stand for characters: some fonts of PDFs are mapped to them by mistake, e.g. ⼭ (U+2F2D) for 山."""

from __future__ import annotations

import re
import unicodedata

_KANGXI = range(0x2F00, 0x2FD6)
# Source: EquivalentUnifiedIdeograph.txt of Unicode 16; those of the radicals supplement that fonts of Japan have.
_SUPPLEMENT = dict(
    zip(
        "⺁⺅⺌⺍⺘⺟⺠⺡⺢⺣⺨⺬⺭⺲⺹⺼⺾⻀⻁⻂⻄⻆⻌⻍⻎⻏⻑⻖⻘⻝⻟⻣⻤⻨⻩⻫⻭⻯⻲",
        "厂亻小⺍扌母民氵氺灬犭示礻罒耂月艹艹虎衤西角辶辶辶阝長阝青食飠骨鬼麦黄斉歯竜亀",
        strict=True,
    )
)
_CHARACTERS = {chr(code): unicodedata.normalize("NFKC", chr(code)) for code in _KANGXI} | {
    radical: character for radical, character in _SUPPLEMENT.items() if radical != character
}
_RADICAL = re.compile(f"[{''.join(_CHARACTERS)}]")


def replace_radicals(text: str) -> tuple[str, int]:
    """Return the text with characters in place of radicals, and how many were replaced."""
    return _RADICAL.subn(lambda found: _CHARACTERS[found[0]], text)
