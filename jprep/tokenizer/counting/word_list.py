r"""Reads a word list: `word \t count` a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.engine.stage import Receipt
from jprep.errors import InputError
from jprep.io.inputs.streams import open_input
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.results import FOLDER, write_results
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, UnitRows
from jprep.tokenizer.counting.unit_counter import UnitCounter
from jprep.tokenizer.counting.units import NEWLINE, SEPARATES, array, views

_BLOCK = 4 << 20
_LONGEST = 64 << 20  # bytes of a line: a file that is no list at all must not fill the memory
_MOST = 2**62
_TAB = 0x09
_FIX = "each line must be a word, a tab and its count, in UTF-8"
_BOM = b"\xef\xbb\xbf"


def count_list(path: Path, config: TokenizerConfig, root: Path) -> list[Receipt]:
    """Count the units of a list; see `jprep.tokenizer.counting.read_counts`."""
    with SpilledRuns(root / FOLDER, "list") as spill:
        tally = UnitCounter(config, spill, str(path))
        with open_input(str(path)) as file:
            line = 1
            for block in _blocks(file, path):
                words, counts = _parsed(block, path, line)
                tally.add(words, counts)
                line += len(counts)
        result = write_results(root, tally.blocks(), [], config.max_words)
    return [Receipt("list", "", "", result.outputs, result.counts, {})]


def _blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Whole lines, some megabytes at a time, each line with a newline behind it."""
    rest, first = b"", True
    while data := file.read(_BLOCK):
        if first:
            data, first = data.removeprefix(_BOM), False
        whole, newline, after = data.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
        rest = after if newline else rest + data
        if len(rest) > _LONGEST:
            raise InputError("a line is longer than 64 MB", where=str(path), fix=_FIX)
    if rest:
        yield rest + b"\n"


def _parsed(block: bytes, path: Path, line: int) -> UnitRows:
    """The words of whole lines, and their counts; the first line's number is `line`."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    rows = _split(np.frombuffer(block, np.uint8))
    if rows is not None and (parsed := _converted(*rows)) is not None:
        return parsed
    for number, text in enumerate(block.split(b"\n")[:-1], line):
        if what := _wrong(text):
            raise InputError(what, where=f"{path}, line {number}", fix=_FIX)
    raise AssertionError("no line is wrong, and yet the block was")


def _split(data: Any) -> tuple[Any, Any] | None:
    """Words and counts as byte strings; None unless each line holds one tab."""
    ends, tabs = np.flatnonzero(data == NEWLINE), np.flatnonzero(data == _TAB)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if len(ends) != len(tabs) or (tabs < starts).any() or (tabs > ends).any():
        return None
    offsets = np.empty(2 * len(ends) + 1, np.int64)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, tabs + 1, len(data)
    both = pc.binary_slice(array(offsets, data), 0, -1)  # each value ended in its tab or newline
    return both.take(pa.array(np.arange(0, len(both), 2))), both.take(pa.array(np.arange(1, len(both), 2)))


def _converted(words: Any, counts: Any) -> UnitRows | None:
    """Words and counts as they are added up; None if one of them is wrong."""
    try:
        words.cast(pa.large_string())
        digits = counts.cast(pa.large_string())
        numbers = digits.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    plain = pc.all(pc.match_substring_regex(digits, "^[0-9]+$")).as_py()
    offsets, data = views(words)
    sound = plain and (np.diff(offsets) > 0).all() and not SEPARATES[data].any()
    return (words, numbers) if sound and numbers.min() > 0 and numbers.max() <= _MOST else None


def _wrong(line: bytes) -> str:
    """What is wrong with a line, or ""."""
    word, tab, count = line.partition(b"\t")
    if not tab or not word:
        return "there is no tab in this line" if not tab else "there is no word in this line"
    if not (count.isdigit() and 0 < int(count[:30]) <= _MOST):
        return f"{count[:30].decode(errors='replace')!r} is no count from 1 to 2**62"
    try:
        held = [
            character for character in word.decode() if ord(character) < len(SEPARATES) and SEPARATES[ord(character)]
        ]
    except UnicodeDecodeError:
        return "the word is not UTF-8"
    return f"the word holds {held[0]!r}" if held else ""
