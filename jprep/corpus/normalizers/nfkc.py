"""Unicode normalization form NFKC."""

from __future__ import annotations

import operator
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.code_points import code_points
from jprep.corpus.step import Normalizer

_PLANES = 0x30000
"""No character beyond the first three planes has a decomposition."""


class NfkcNormalizer(Normalizer):
    """Applies NFKC line by line, and counts every kind of change.

    The number of lines does not change: NFKC neither creates nor removes a line feed. U+2028, U+2029, U+0085 and other
    characters that some programs treat as line ends are kept.
    """

    name = "nfkc"
    version = 1

    def provenance(self) -> dict[str, str]:
        """Return the version of Python's Unicode tables."""
        return {"unidata_version": unicodedata.unidata_version}

    def apply(self, text: str) -> str:
        """Normalize each line. Count replaced characters by kind of decomposition, composed ones, and changed lines."""
        lines = text.split("\n")
        results = [unicodedata.normalize("NFKC", line) for line in lines]
        changed = list(map(operator.ne, lines, results))
        if not any(changed):
            return text
        self.tally["lines_changed"] += sum(changed)
        result = "\n".join(results)
        self._count(text, result)
        return result

    def _count(self, text: str, result: str) -> None:
        tables = _tables()
        codes = code_points(text)
        tags = tables.tag.take(codes, mode="clip")
        for tag, count in zip(tables.tags[1:], np.bincount(tags, minlength=len(tables.tags))[1:].tolist(), strict=True):
            if count:
                self.tally[f"{tag}.replaced"] += count
        grown = int(tables.growth[codes[tags > 0]].sum())
        if composed := len(text) + grown - len(result):
            self.tally["composed.removed"] += composed


class _Tables(NamedTuple):
    """The effect of NFKC on single characters.

    Attributes:
        tags: kinds of decomposition; the first one means no decomposition.
        tag: kind of each code point as an index of `tags`, shape (0x30000,).
        growth: number of characters that each code point grows by, shape (0x30000,).
    """

    tags: list[str]
    tag: npt.NDArray[np.uint8]
    growth: npt.NDArray[np.int8]


@cache
def _tables() -> _Tables:
    indexes = {"": 0}
    tag, growth = np.zeros(_PLANES, np.uint8), np.zeros(_PLANES, np.int8)
    for code, character in enumerate(map(chr, range(_PLANES))):
        form = unicodedata.normalize("NFKC", character)
        if form != character:
            decomposition = unicodedata.decomposition(character)
            kind = decomposition[1:].split(">")[0] if decomposition.startswith("<") else "canonical"
            tag[code] = indexes.setdefault(kind, len(indexes))
            growth[code] = len(form) - 1
    return _Tables(list(indexes), tag, growth)
