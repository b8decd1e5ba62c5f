"""Define training units, and find them in marked text without a Python object for each.

Text is cut at tabs, newlines, carriage returns and NULs, then at word and sentence marks. Spaces belong to no word:
with `spaces = "prefix"` one space is joined to the beginning of the next word, across marks, and the rest of a longer
run is a unit; with `"alone"` a run is a unit. With `digits = "split"` each of 0–9 and ０–９ is a unit, and is joined to
no space.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from jprep.errors import InputError
from jprep.tokenizer.config import DIGITS, TokenizerConfig

VERSION = 1
"""Increased when the same text would give different units than before."""

UNIT_TYPE = pa.large_binary()
SPACE_BYTE, NEWLINE_BYTE = 0x20, 0x0A
_BLOCK = 1 << 18  # bytes per block: intermediate arrays stay in the processor's cache
_LIMIT = 2**63

SEPARATES = np.zeros(256, bool)
"""The bytes that no unit contains."""
SEPARATES[[0x00, 0x09, 0x0A, 0x0D, 0x1E, 0x1F]] = True
_MAY_BE_DIGIT = np.zeros(256, bool)
_MAY_BE_DIGIT[[*b"0123456789", 0xEF]] = True  # first byte of a full-width digit


def refuse_overflow(total: int, where: str = "") -> None:
    """Refuse counts that do not fit into 64 bits.

    Raises:
        InputError: the total is 2**63 or more.
    """
    if total >= _LIMIT:
        raise InputError(
            "the counts add up to 2**63 or more", where=where or "all units", fix="divide all counts by the same number"
        )


def array(offsets: Any, data: Any) -> Any:
    """Return an Arrow array of byte strings over two buffers, without copying.

    Args:
        offsets: int64, start of each value, and the end of the last one.
        data: uint8, or an Arrow buffer.
    """
    buffers = [None, pa.py_buffer(offsets), data if isinstance(data, pa.Buffer) else pa.py_buffer(data)]
    return pa.LargeBinaryArray.from_buffers(UNIT_TYPE, len(offsets) - 1, buffers)


def views(values: Any) -> tuple[Any, Any]:
    """Return the offsets (int64, from 0) and the bytes (uint8) of an Arrow array of strings or byte strings."""
    kind = np.int64 if values.type in (UNIT_TYPE, pa.large_string()) else np.int32
    if not len(values):
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = values.buffers()
    places = np.frombuffer(offsets, kind)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    held = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
    return places - places[0], held[places[0] : places[-1]]


def pieces(rows: Any, *, newline_is_space: bool = False) -> Any:
    """Cut marked texts into pieces, which `to_units` converts to units. A piece still contains the marks after it.

    Args:
        rows: an Arrow array of strings; no piece crosses from one to the next.
        newline_is_space: whether the tokenizer replaces newlines by spaces.
    """
    starts, data = views(rows)
    if newline_is_space:
        data = np.where(data == NEWLINE_BYTE, np.uint8(SPACE_BYTE), data)
    ends = np.zeros(len(data) + 1, bool)
    blocks = range(0, len(data), _BLOCK)
    if sum(_mark_ends(data, starts, ends, block) for block in blocks):
        _join_through_marks(data, starts, ends)
    ends[starts] = True
    return array(np.flatnonzero(ends), data)


def _mark_ends(data: Any, starts: Any, ends: Any, start: int) -> bool:
    """Find the ends of pieces in one block.

    A piece ends after cuts and marks, except a mark after a space, and before a run of spaces.

    Returns:
        Whether there are consecutive marks.
    """
    stop, begin = min(start + _BLOCK, len(data)), max(start - 1, 0)
    block = data[begin:stop]
    space, mark = block == SPACE_BYTE, (block >> 1) == 0x0F
    cut = (block == NEWLINE_BYTE) | (block == 0x09) | (block == 0x0D) | (block == 0x00)
    after_space = np.zeros(len(block), bool)
    after_space[1:] = space[:-1]
    after_space[starts[np.searchsorted(starts, start) : np.searchsorted(starts, stop)] - begin] = False
    own = slice(start - begin, None)
    ends[start + 1 : stop + 1] = (cut | (mark & ~after_space))[own]
    ends[begin + 1 : stop] |= ~(space | mark | cut)[:-1] & space[1:]
    return bool((mark[1:] & mark[:-1]).any())


def _join_through_marks(data: Any, starts: Any, ends: Any) -> None:
    """Unset the ends of pieces at consecutive marks that follow a space."""
    marks = np.flatnonzero((data >> 1) == 0x0F)
    starting = np.isin(marks, starts)
    first = np.ones(len(marks), bool)
    first[1:] = (marks[1:] != marks[:-1] + 1) | starting[1:]
    after_space = (data[marks - 1] == SPACE_BYTE) & ~starting  # byte 0 starts a text, so byte -1 is never used
    run = np.maximum.accumulate(np.where(first, np.arange(len(marks)), 0))
    ends[marks + 1] = ~after_space[run]


def to_units(values: Any, counts: Any, config: TokenizerConfig, where: str = "") -> tuple[Any, Any]:
    """Convert distinct pieces to units: remove marks, and divide pieces of several units.

    Args:
        values: an Arrow array of byte strings.
        counts: int64 of the same length.
        config: policies for spaces and digits.
        where: location for error messages.

    Returns:
        Units, possibly repeated, and their counts.

    Raises:
        InputError: a count reaches 2**63.
    """
    offsets, data = without_separators(*views(values))
    several = _may_be_several(offsets, data, config)
    good = ~several & (np.diff(offsets) > 0)
    values = array(offsets, data)
    divided = _divide(values.filter(pa.array(several)).to_pylist(), counts[several].tolist(), config)
    refuse_overflow(max(divided.values(), default=0), where)
    kept = [values.filter(pa.array(good)), pa.array([unit.encode() for unit in divided], UNIT_TYPE)]
    return pa.concat_arrays(kept), np.concatenate([counts[good], np.array(list(divided.values()), np.int64)])


def without_separators(offsets: Any, data: Any) -> tuple[Any, Any]:
    """Return the offsets and bytes of values without the bytes that no unit contains."""
    goes = SEPARATES[data]
    return offsets - np.searchsorted(np.flatnonzero(goes), offsets), data[~goes]


def _may_be_several(offsets: Any, data: Any, config: TokenizerConfig) -> Any:
    """Return which values may contain several units: a space that is not in front, or a digit among others."""
    space = data == SPACE_BYTE
    if config.spaces == "prefix":
        space[offsets[:-1][offsets[:-1] < len(data)]] = False
    found = space | _MAY_BE_DIGIT[data] if config.digits == "split" else space
    several = np.zeros(len(offsets) - 1, bool)
    several[np.searchsorted(offsets, np.flatnonzero(found), "right") - 1] = True
    return several


def _divide(values: list[bytes], counts: list[int], config: TokenizerConfig) -> dict[str, int]:
    pattern = _pattern(config)
    total: dict[str, int] = {}
    for value, count in zip(values, counts, strict=True):
        for unit in pattern.findall(value.decode()):
            total[unit] = total.get(unit, 0) + count
    return total


def _pattern(config: TokenizerConfig) -> re.Pattern[str]:
    digit = DIGITS if config.digits == "split" else ""
    single = f"|[{digit}]" if digit else ""
    if config.spaces == "alone":
        return re.compile(f" +|[^ {digit}]+{single}")
    return re.compile(f" +(?= [^ {digit}])| ?[^ {digit}]+{single}| +")
