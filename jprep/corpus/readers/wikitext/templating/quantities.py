"""Tell numbers and symbols of units from other arguments."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[-+−–±]?(?:\d[\d,.，．]*+|\.\d++)(?:[-+/⁄–]+\d[\d,.]*+)*+(?:e[-+]?\d++)?", re.I)
_SYMBOL = re.compile(
    r"(?!(?:and|or|to|by|plus|minus|through|xx?|on|off|e\d.*)\Z)[A-Za-z°µμΩÅ/][A-Za-z°µμΩÅ/²³.·⋅0-9]*", re.I
)
_EXPONENT = re.compile(r"(?<![A-Za-z])((?:[a-zA-Zµμ]?m|ft|in|yd|mi|s|sec))([23])(?![A-Za-z0-9])")
_RAISED = {"2": "²", "3": "³"}


def plain_number(text: str) -> str:
    """Return a number or a fraction (`1,000`, `-5`, `1+1/2`), or ""."""
    return text if _NUMBER.fullmatch(text) else ""


def unit_symbol(text: str) -> str:
    """Return the symbol of a unit, with raised exponents (`m3/s` is m³/s); "" for other texts and words of ranges."""
    return _EXPONENT.sub(lambda sign: sign[1] + _RAISED[sign[2]], text) if _SYMBOL.fullmatch(text) else ""
