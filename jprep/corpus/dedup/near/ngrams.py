"""Character n-grams of a text, as hashes. Spaces, punctuation, case and width do not matter."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from functools import cache
from typing import Any

from jprep.corpus.code_points import CodePointTable, code_points

_MAPPED = 1 << 16
_DROPPED = "PZCS"  # general categories: punctuation, separators, control characters, symbols
_MULTIPLIER = 0x9E3779B97F4A7C15
_MIX = 0xBF58476D1CE4E5B9


def comparable(text: str) -> Any:
    """Return the code points of a text, as uint32: NFKC and lower case, without spaces, punctuation and symbols.

    Characters are mapped one by one. One whose NFKC form has several characters stays, as do those beyond U+FFFF.
    """
    codes = _table().of(code_points(text))
    return codes[codes != 0]


@cache
def _table() -> CodePointTable:
    import numpy as np

    return CodePointTable(lambda characters: np.array(list(map(_comparable_code, characters)), "<u4"))


def _comparable_code(character: str) -> int:
    if ord(character) >= _MAPPED:
        return ord(character)
    form = unicodedata.normalize("NFKC", character).lower()
    if len(form) == 1:
        character = form
    return 0 if unicodedata.category(character)[0] in _DROPPED else ord(character)


def ngram_hashes(texts: Sequence[Any], size: int) -> tuple[Any, Any]:
    """Hash all n-grams of some texts.

    Args:
        texts: code points of each text, see `comparable`.
        size: characters in an n-gram.

    Returns:
        The hashes of all n-grams as uint64, text by text, and where each text begins among them; the last entry is the
        number of all hashes. A text with fewer than `size` characters has none.
    """
    import numpy as np

    lengths = np.array([len(text) for text in texts], np.int64)
    starts = np.concatenate([[0], np.cumsum(np.maximum(lengths - size + 1, 0))])
    if starts[-1] == 0:
        return np.empty(0, np.uint64), starts.astype(np.uint64)
    codes = np.concatenate(texts).astype(np.uint64)
    hashes = np.zeros(len(codes) - size + 1, np.uint64)
    for offset in range(size):
        hashes = hashes * np.uint64(_MULTIPLIER) + codes[offset : len(codes) - size + 1 + offset]
    return mixed(hashes[_inside(lengths, size)[: len(hashes)]]), starts.astype(np.uint64)


def _inside(lengths: Any, size: int) -> Any:
    """Return for each character of the joined texts whether an n-gram of one text begins there."""
    import numpy as np

    ends = np.repeat(np.cumsum(lengths), lengths)
    return np.arange(len(ends)) + size <= ends


def mixed(values: Any) -> Any:
    """Return 64-bit values whose bits all depend on all bits of the given ones."""
    import numpy as np

    values = (values ^ (values >> np.uint64(30))) * np.uint64(_MIX)
    return values ^ (values >> np.uint64(31))
