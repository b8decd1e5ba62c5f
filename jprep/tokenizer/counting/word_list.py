r"""Read a word list with lines of `word \t count`."""

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
from jprep.tokenizer.counting.results import FOLDER, sum_units, write_results
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, UnitRows
from jprep.tokenizer.counting.unit_counter import UnitCounter
from jprep.tokenizer.counting.units import NEWLINE_BYTE, SEPARATES, array, views

_BLOCK = 4 << 20
_MAX_LINE = 64 << 20  # bytes per line: a file that is not a list must not fill the memory
_MAX_COUNT = 2**62
_TAB = 0x09
_FIX = "each line must be a word, a tab and a count, in UTF-8"
_BOM = b"\xef\xbb\xbf"


def count_list(path: Path, config: TokenizerConfig, root: Path) -> list[Receipt]:
    """Count the units of a list; see `jprep.tokenizer.counting.read_counts`."""
    with SpilledRuns(root / FOLDER, "list") as spill:
        tally = UnitCounter(config, spill, str(path))
        with open_input(str(path)) as file:
            line = 1
            for block in _blocks(file, path):
                words, counts = _parse(block, path, line)
                tally.add(words, counts)
                line += len(counts)
        units = sum_units(tally.blocks(), config.max_words)
        result = write_results(root, units, [])
    return [Receipt("list", "", "", result.outputs, units.counts | result.counts, {})]


def _blocks(file: BinaryIO, path: Path) -> Iterator[bytes]:
    """Yield whole lines in blocks of some megabytes, each line with a newline."""
    rest, first = b"", True
    while data := file.read(_BLOCK):
        if first:
            data, first = data.removeprefix(_BOM), False
        whole, newline, after = data.rpartition(b"\n")
        if newline:
            yield rest + whole + newline
        rest = after if newline else rest + data
        if len(rest) > _MAX_LINE:
            raise InputError("a line is longer than 64 MB", where=str(path), fix=_FIX)
    if rest:
        yield rest + b"\n"


def _parse(block: bytes, path: Path, line: int) -> UnitRows:
    """Parse whole lines into words and counts. `line` is the number of the first line."""
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n")
    rows = _split_columns(np.frombuffer(block, np.uint8))
    if rows is not None and (parsed := _convert(*rows)) is not None:
        return parsed
    for number, text in enumerate(block.split(b"\n")[:-1], line):
        if what := _error(text):
            raise InputError(what, where=f"{path}, line {number}", fix=_FIX)
    raise AssertionError("the block is invalid, but none of its lines")


def _split_columns(data: Any) -> tuple[Any, Any] | None:
    """Return words and counts as byte strings; None unless each line contains one tab."""
    ends, tabs = np.flatnonzero(data == NEWLINE_BYTE), np.flatnonzero(data == _TAB)
    starts = np.concatenate([[0], ends[:-1] + 1])
    if len(ends) != len(tabs) or (tabs < starts).any() or (tabs > ends).any():
        return None
    offsets = np.empty(2 * len(ends) + 1, np.int64)
    offsets[0:-1:2], offsets[1::2], offsets[-1] = starts, tabs + 1, len(data)
    both = pc.binary_slice(array(offsets, data), 0, -1)  # removes the tab or newline at the end of each value
    return both.take(pa.array(np.arange(0, len(both), 2))), both.take(pa.array(np.arange(1, len(both), 2)))


def _convert(words: Any, counts: Any) -> UnitRows | None:
    """Return words and integer counts; None if any is invalid."""
    try:
        words.cast(pa.large_string())
        digits = counts.cast(pa.large_string())
        numbers = digits.cast(pa.int64()).to_numpy()
    except pa.ArrowInvalid:
        return None
    plain = pc.all(pc.match_substring_regex(digits, "^[0-9]+$")).as_py()
    offsets, data = views(words)
    sound = plain and (np.diff(offsets) > 0).all() and not SEPARATES[data].any()
    return (words, numbers) if sound and numbers.min() > 0 and numbers.max() <= _MAX_COUNT else None


def _error(line: bytes) -> str:
    """Return what is wrong with a line, or ""."""
    word, tab, count = line.partition(b"\t")
    if not tab or not word:
        return "missing tab" if not tab else "missing word"
    if not (count.isdigit() and 0 < int(count[:30]) <= _MAX_COUNT):
        return f"{count[:30].decode(errors='replace')!r} is not a count from 1 to 2**62"
    try:
        forbidden = [
            character for character in word.decode() if ord(character) < len(SEPARATES) and SEPARATES[ord(character)]
        ]
    except UnicodeDecodeError:
        return "the word is not valid UTF-8"
    return f"the word contains {forbidden[0]!r}" if forbidden else ""
