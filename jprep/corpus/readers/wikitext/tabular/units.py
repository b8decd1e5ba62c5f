"""Leave out the unit of a label where the value has it as well."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from jprep.corpus.readers.wikitext.html.entities import decode_entities

_UNIT = re.compile(r"（(?:[^（）]*、)?([^（）、]+)）\Z")
_TAG = re.compile(r"<[^<>]{1,40}>")
_NUMBER = r"\d[\d.,]*+(?:\s?[百千万億兆京]\s?[\d.,]*+)*+"
_RANGE = rf"\D*+{_NUMBER}(?:\s?(?:[-~〜–—−]|から)\s?{_NUMBER})*+\s?"
_SPELLED = {
    "m": "メートル", "km": "キロ", "m2": "平方メートル|平米", "km2": "平方キロ", "°C": "度", "ドル": "米ドル|USドル",
    "自国通貨": "[ァ-ヶー・]+|円|元",
}  # fmt: skip
"""Other ways to write units, as regular expressions."""


def without_doubled_unit(label: str, value: str) -> str:
    """Return a label without its unit, `標高（m）`, if the first number of the value has it: `394 m`."""
    if not (unit := _UNIT.search(label)):
        return label
    shown = unicodedata.normalize("NFKC", _TAG.sub("", decode_entities(value)))
    if not _with_unit(unit[1]).match(shown):
        return label
    rest, comma, _ = unit[0].rpartition("、")
    return label[: unit.start()] + (f"{rest}）" if comma else "")


@cache
def _with_unit(unit: str) -> re.Pattern[str]:
    """Return what matches the beginning of a value, normalised, whose first number or range has a unit."""
    plain = unicodedata.normalize("NFKC", unit)
    ways = "|".join(filter(None, (re.escape(plain), _SPELLED.get(plain))))
    return re.compile(rf"{_RANGE}(?:{ways})(?![a-z\d/])", re.I)
