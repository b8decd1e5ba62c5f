"""Reduce text to what is compared: letters and digits without width, case and marks, as arrays of hashed characters."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from functools import cache

import numpy as np
import numpy.typing as npt

from jprep.corpus.code_points import CodePointTable, code_points
from jprep.random.counter_bits import UInt64Array, mix

_DROPPED, _MARK, _SEVERAL = 0, 1, 2  # values of the table that are no hash; the first two are not compared
SEPARATOR = np.uint64(3)
"""Stands between texts: no folded character has this value."""
BREAK = "\x00"
"""Becomes `SEPARATOR`. In a text it ends an n-gram as the end of the text does."""

_MARKS = '\n\r\t\v\f\x85\u2028\u2029。｡！？!?:：|｜"'  # besides brackets and quotation marks
_QUOTES = ("Ps", "Pe", "Pi", "Pf")


def fold(text: str) -> UInt64Array:
    """Return a hash for each character that is compared.

    Characters are those of NFKD, in lower case, without marks (so that half-width kana with a voicing mark equal their
    one-character form), spaces, punctuation, symbols and controls.
    """
    values = _all_values(text)
    found: UInt64Array = values[values > _MARK]
    return found


def fold_with_marks(text: str) -> tuple[UInt64Array, npt.NDArray[np.int64]]:
    """Return what `fold` returns, and before which of those values a sentence may begin or end.

    That is where the text has an end of a line or a sentence, a colon, a bracket or a quotation mark.
    """
    values = _all_values(text)
    compared = values > _MARK
    return values[compared], np.searchsorted(np.flatnonzero(compared), np.flatnonzero(values == _MARK))


def folded_places(text: str) -> npt.NDArray[np.int64]:
    """Return for each value that `fold` returns the place in the text of the character that it comes from."""
    values = _table().of(code_points(text))
    counts = (values > _MARK).astype(np.int64)
    for place in np.flatnonzero(values == _SEVERAL).tolist():
        counts[place] = len(_folded(text[place]))
    return np.repeat(np.arange(len(text)), counts)


def _all_values(text: str) -> UInt64Array:
    values: UInt64Array = _table().of(code_points(text))
    if len(several := np.flatnonzero(values == _SEVERAL)):  # one character becomes several, such as ㍻ and ㎞
        values = _expanded(values, text, several.tolist())
    return values


@cache
def _table() -> CodePointTable:
    return CodePointTable(_values)


def _values(characters: list[str]) -> UInt64Array:
    folded = list(map(_folded, characters))
    hashes = _hashes([text if len(text) == 1 else BREAK for text in folded])
    values = np.where([len(text) == 1 for text in folded], hashes, np.uint64(_DROPPED))
    values[[len(text) > 1 for text in folded]] = _SEVERAL
    values[[_is_mark(character) for character in characters]] = _MARK
    values[[character == BREAK for character in characters]] = SEPARATOR
    return values


def _is_mark(character: str) -> bool:
    """Return whether a sentence may begin or end at a character; an apostrophe is inside of a word."""
    return character in _MARKS or (unicodedata.category(character) in _QUOTES and character != "’")


def _hashes(characters: Iterable[str]) -> UInt64Array:
    return mix(np.array(list(map(ord, characters)), np.uint64) + np.uint64(1 << 32))


def _folded(character: str) -> str:
    parts = unicodedata.normalize("NFKD", character).casefold()
    return "".join(part for part in unicodedata.normalize("NFKD", parts) if unicodedata.category(part)[0] in "LN")


def _expanded(values: UInt64Array, text: str, places: list[int]) -> UInt64Array:
    """Return the values with those of several characters in place of a `_SEVERAL`."""
    pieces, start = list[UInt64Array](), 0
    for place in places:
        pieces += [values[start:place], _hashes(_folded(text[place]))]
        start = place + 1
    return np.concatenate([*pieces, values[start:]])
