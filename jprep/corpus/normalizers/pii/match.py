"""What detectors share: a text in a form to match on, and the places they find."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cache
from typing import NamedTuple

from jprep.corpus.code_points import CodePointTable, code_points


class Match(NamedTuple):
    """A place in a text, from `start` up to but not including `end`."""

    start: int
    end: int


Detector = Callable[[str], Iterator[Match]]
"""Yields the places of one kind of personal data in a text that `simplified` returned; they may overlap.

A detector looks for digits first, which are rare, and then at what stands around them.
"""

_FULL_WIDTH = {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}
_HYPHENS = dict.fromkeys(map(ord, "\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2500\u207b\u02d7\ufe63\uff70"), ord("-"))
_SPACES = dict.fromkeys((0x3000, 0xA0), ord(" "))
_REPLACED = _FULL_WIDTH | _HYPHENS | _SPACES
_LONG_VOWEL = re.compile(r"ー(?<=[0-9]ー)(?=[0-9])")


def simplified(text: str) -> str:
    """Return a text of the same length with ASCII digits, letters, brackets, hyphens and spaces."""
    result: str = _table().of(code_points(text)).tobytes().decode("utf-32-le", "surrogatepass")
    return _LONG_VOWEL.sub("-", result) if "ー" in result else result


@cache
def _table() -> CodePointTable:
    import numpy as np

    return CodePointTable(
        lambda characters: np.array([_REPLACED.get(ord(each), ord(each)) for each in characters], "<u4")
    )


def digits(text: str) -> str:
    """Return the ASCII digits of a text."""
    return "".join(filter(str.isdecimal, text))


def after(text: str, start: int, pattern: re.Pattern[str], reach: int) -> re.Match[str] | None:
    """Return where a pattern is found in the `reach` characters before a place, in its line."""
    before = text[max(0, start - reach) : start]
    return pattern.search(before.rpartition("\n")[2])
