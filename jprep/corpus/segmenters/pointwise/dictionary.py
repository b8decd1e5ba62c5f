"""The dictionary of a model: which strings of 2 to 8 characters are words, as one table of bits."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.segmenters.pointwise.characters import fold_codes, symbols_of
from jprep.corpus.segmenters.pointwise.features import LANES, LONGEST, PREFIX, FeatureConfig, hash_words, word_bit
from jprep.errors import DamagedError
from jprep.io.os_errors import translate_read_errors
from jprep.libraries import import_library

if TYPE_CHECKING:
    from numpy.typing import NDArray

_HEADER = struct.Struct("<10I32s")
_ARRAY_SIZE = 6  # index in the header of the size of the double array
_MAX_BYTES = 4 * LONGEST
_UNIT = np.dtype([("base", "<i4"), ("check", "<u4")])
_GROUP = 1 << 16  # words hashed at a time


def make_dictionary(words: Iterable[str], config: FeatureConfig) -> NDArray[np.uint8]:
    """Return the table of a dictionary: bit n - 1 of the byte of a word of n characters is set.

    The first four characters of a longer word have the bit `PREFIX`. A string that is no word can have the byte and bit
    of one by chance. Words of one and of more than 8 characters are left out.
    """
    table = np.zeros(1 << config.words, np.uint8)
    by_length: dict[int, list[str]] = {n: [] for n in range(2, LONGEST + 1)}
    for word in words:
        if 1 < len(word) <= LONGEST:
            group = by_length[len(word)]
            group.append(word)
            if len(group) == _GROUP:
                _add_words(table, group, config)
                group.clear()
    for group in by_length.values():
        _add_words(table, group, config)
    return table


def _add_words(table: NDArray[np.uint8], words: list[str], config: FeatureConfig) -> None:
    """Add words of equal length to a table."""
    if words:
        symbols = symbols_of(fold_codes(code_points("".join(words)))).reshape(len(words), -1)
        table[hash_words(symbols, config)] |= word_bit(len(words[0]))
        if len(words[0]) > len(LANES):
            table[hash_words(symbols[:, : len(LANES)], config)] |= PREFIX


def jumandic_words() -> Iterator[str]:
    """Yield the surfaces of the words in the dictionary of the package `jumandic`.

    Raises:
        MachineError: it is not installed.
        DamagedError: its dictionary is not one of MeCab.
    """
    module = import_library("jumandic", "the dictionary of the model needs jumandic", "'jprep[jumandic]'")
    yield from mecab_words(Path(module.DICDIR) / "sys.dic")


def mecab_words(path: Path) -> Iterator[str]:
    """Yield the surfaces of at most 8 characters in a compiled dictionary of MeCab in UTF-8.

    Raises:
        DamagedError: it is not such a dictionary.
    """
    with translate_read_errors(str(path)), path.open("rb") as file:
        head = file.read(_HEADER.size).ljust(_HEADER.size, b"\0")
        *fields, charset = _HEADER.unpack(head)
        size = fields[_ARRAY_SIZE]
        units = np.frombuffer(file.read(size - size % _UNIT.itemsize), _UNIT)
    if not len(units) or b"utf" not in charset.lower():
        fix = "install the package again"
        raise DamagedError("this is not a dictionary of MeCab in UTF-8", where=str(path), fix=fix)
    for key in _array_keys(units["base"].astype(np.int64), units["check"].astype(np.int64)):
        yield key.decode(errors="ignore")


def _array_keys(base: NDArray[np.int64], check: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the keys of a double array, found by walks from their ends to the root.

    The unit of a character c below a unit of base b is b + 1 + c, and has b in `check`; the end of a key is b itself.
    """
    inner = np.flatnonzero((base > 0) & (base < len(base)))
    owner = np.zeros(len(base), np.int64)
    owner[base[inner]] = inner
    places = np.arange(len(base))
    ends = places[(check == places) & (base < 0)]
    for start in range(0, len(ends), _GROUP):
        yield from _walk_up(owner[ends[start : start + _GROUP]], owner, check)


def _walk_up(units: NDArray[np.int64], owner: NDArray[np.int64], check: NDArray[np.int64]) -> Iterator[bytes]:
    """Yield the bytes on the ways from some units to the root, of those that are short enough."""
    letters = np.zeros((len(units), _MAX_BYTES), np.uint8)
    lengths = np.zeros(len(units), np.int64)
    for step in range(_MAX_BYTES):
        lengths += units != 0
        parents = np.minimum(check[units], len(owner) - 1)
        letters[:, _MAX_BYTES - 1 - step] = (units - parents - 1) & 0xFF
        units = np.where(units == 0, 0, owner[parents])
    for row, length, rest in zip(letters, lengths.tolist(), units.tolist(), strict=True):
        if length and not rest:
            yield row[_MAX_BYTES - length :].tobytes()
