"""Unicode's own normalisation form for search and comparison, NFKC."""

from __future__ import annotations

import operator
import unicodedata
from functools import cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.step import Normalizer

_PLANES = 0x30000
"""No character beyond the first three planes has a decomposition."""


class NfkcNormalizer(Normalizer):
    """NFKC, line by line, with counts of every kind of change.

    The number of lines stays: no character becomes a line feed, and none joins one. U+2028, U+2029, U+0085 and the
    other characters that some programs take for line ends stay what they are.
    """

    name = "nfkc"
    version = 1

    def provenance(self) -> dict[str, str]:
        """The version of the Unicode tables, which come with Python."""
        return {"unidata_version": unicodedata.unidata_version}

    def apply(self, text: str) -> str:
        """Normalise each line; count replaced characters per kind of decomposition, composed ones, changed lines."""
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
        codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))
        tags = tables.tag.take(codes, mode="clip")
        for tag, count in zip(tables.tags[1:], np.bincount(tags, minlength=len(tables.tags))[1:].tolist(), strict=True):
            if count:
                self.tally[f"{tag}.replaced"] += count
        grown = int(tables.growth[codes[tags > 0]].sum())
        if composed := len(text) + grown - len(result):
            self.tally["composed.removed"] += composed


class _Tables(NamedTuple):
    """What NFKC does to single characters.

    Attributes:
        tags: the kinds of decomposition; the first stands for none.
        tag: the place in `tags` of each code point's kind, (0x30000,).
        growth: by how many characters each grows, (0x30000,).
    """

    tags: list[str]
    tag: npt.NDArray[np.uint8]
    growth: npt.NDArray[np.int8]


@cache
def _tables() -> _Tables:
    places = {"": 0}
    tag, growth = np.zeros(_PLANES, np.uint8), np.zeros(_PLANES, np.int8)
    for code, character in enumerate(map(chr, range(_PLANES))):
        form = unicodedata.normalize("NFKC", character)
        if form != character:
            decomposition = unicodedata.decomposition(character)
            kind = decomposition[1:].split(">")[0] if decomposition.startswith("<") else "canonical"
            tag[code] = places.setdefault(kind, len(places))
            growth[code] = len(form) - 1
    return _Tables(list(places), tag, growth)
