"""The output files of counting: the most frequent units, all characters, and the sample."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.engine.stage import Output, Result
from jprep.io.atomic import atomic_path, file_sha256
from jprep.tokenizer.counting.sorted_runs import UnitRows, exact_sum
from jprep.tokenizer.counting.units import UNIT_TYPE, refuse_overflow, views

FOLDER = "merging"
WORDS, CHARACTERS, SAMPLE = f"{FOLDER}/words.tsv", f"{FOLDER}/characters.tsv", f"{FOLDER}/sample.txt"

_ALL_CHARACTERS = 0x110000
_LARGE = 2**32
_SLICE = 1 << 16  # rows written at a time


class TopUnits:
    """Select the most frequent units of a stream in code point order; the first of equally frequent units win.

    At most twice as many are kept in memory.

    Args:
        most: number of units to keep.
    """

    def __init__(self, most: int) -> None:
        self._most, self._least = most, 0
        self._parts: list[UnitRows] = []
        self._rows = 0

    def add(self, units: Any, counts: Any) -> None:
        """Add the next rows."""
        if self._least:  # enough earlier units occur at least as often
            more = counts > self._least
            units, counts = units.filter(pa.array(more)), counts[more]
        self._parts.append((units, counts))
        self._rows += len(units)
        if self._rows > 2 * self._most:
            self._parts = [self._cut()]
            self._rows = len(self._parts[0][1])

    def _cut(self) -> UnitRows:
        units = pa.concat_arrays([pa.array([], UNIT_TYPE), *(part[0] for part in self._parts)])
        counts = np.concatenate([np.empty(0, np.int64), *(part[1] for part in self._parts)])
        if len(counts) <= self._most:
            return units, counts
        self._least = np.partition(counts, len(counts) - self._most)[len(counts) - self._most]
        kept = counts > self._least
        kept[np.flatnonzero(counts == self._least)[: self._most - int(kept.sum())]] = True
        return units.filter(pa.array(kept)), counts[kept]

    def in_order(self) -> UnitRows:
        """Return the selected units, by code point."""
        return self._cut()

    def rows(self) -> UnitRows:
        """Return the selected units, by count descending, then by code point."""
        units, counts = self._cut()
        order = np.argsort(-counts, kind="stable")
        return units.take(pa.array(order)), counts[order]


class AlphabetCounts:
    """Count the characters of units, exactly."""

    def __init__(self) -> None:
        self._sums = np.zeros(_ALL_CHARACTERS, np.int64)
        self._added = 0  # the sum of `_sums`
        self._large: Counter[int] = Counter()

    def add(self, units: Any, counts: Any) -> None:
        """Add rows."""
        small = counts < _LARGE
        if not small.all():  # these are always few
            for unit, count in zip(units.filter(pa.array(~small)).to_pylist(), counts[~small].tolist(), strict=True):
                for character in unit.decode():
                    self._large[ord(character)] += count
            units, counts = units.filter(pa.array(small)), counts[small]
        offsets, data = views(units)
        begun = np.concatenate([[0], np.cumsum((data & 0xC0) != 0x80)])
        times = np.repeat(counts, np.diff(begun[offsets]))
        self._reserve(exact_sum(times))
        np.add.at(self._sums, np.frombuffer(data.tobytes().decode().encode("utf-32-le"), np.uint32), times)

    def _reserve(self, more: int) -> None:
        """Ensure that sums fit into 64 bits."""
        if self._added + more >= 2**62:
            self._large, self._added = self.totals(), 0
            self._sums[:] = 0
        self._added += more

    def totals(self) -> Counter[int]:
        """Return occurrences by code point."""
        seen = np.flatnonzero(self._sums)
        return self._large + Counter(dict(zip(seen.tolist(), self._sums[seen].tolist(), strict=True)))


class UnitTotals(NamedTuple):
    """What is known of all units, or of a range of them.

    Attributes:
        top: the most frequent ones.
        characters: occurrences by code point.
        distinct: number of units.
        total: their occurrences.
    """

    top: TopUnits
    characters: Counter[int]
    distinct: int
    total: int

    @property
    def counts(self) -> dict[str, int]:
        """The counters for receipts."""
        return {"units.distinct": self.distinct, "units.total": self.total}


def sum_units(blocks: Iterable[UnitRows], max_words: int) -> UnitTotals:
    """Sum distinct units, which come in code point order, and select at most `max_words` of them."""
    top, characters, distinct, total = TopUnits(max_words), AlphabetCounts(), 0, 0
    for units, counts in blocks:
        top.add(units, counts)
        characters.add(units, counts)
        distinct, total = distinct + len(units), total + exact_sum(counts)
    return UnitTotals(top, characters.totals(), distinct, total)


def write_results(root: Path, units: UnitTotals, samples: Iterable[bytes]) -> Result:
    """Write the three files.

    Args:
        root: the directory that output paths are relative to.
        units: all units.
        samples: concatenated to the sample.
    """
    kept = units.top.rows()
    refuse_overflow(units.characters.total(), "all characters of all units")  # manifests store 64-bit integers
    outputs = [
        write_units(root, WORDS, kept),
        write_characters(root, CHARACTERS, units.characters),
        _write(root, SAMPLE, samples),
    ]
    cut = {"units.cut.distinct": units.distinct - len(kept[1]), "units.cut.total": units.total - exact_sum(kept[1])}
    return Result(outputs, cut)


def write_units(root: Path, path: str, units: UnitRows) -> Output:
    """Write lines of a unit, a tab and its count."""
    return _write(root, path, _unit_lines(*units), len(units[1]))


def write_characters(root: Path, path: str, totals: Counter[int]) -> Output:
    """Write a file of characters; see `read_characters`."""
    return _write(root, path, _character_lines(totals))


def _write(root: Path, path: str, parts: Iterable[bytes], rows: int = 0) -> Output:
    """Write a file of so many rows, or of as many as there are lines."""
    counted = rows
    with atomic_path(root / path) as temporary, temporary.open("wb") as file:
        for part in parts:
            file.write(part)
            rows += 0 if counted else part.count(b"\n")
    return Output(path, rows, file_sha256(root / path))


def _unit_lines(units: Any, counts: Any) -> Iterator[bytes]:
    for start in range(0, len(units), _SLICE):
        numbers = pc.cast(pc.cast(pa.array(counts[start : start + _SLICE]), pa.large_string()), UNIT_TYPE)
        ended = pc.binary_join_element_wise(numbers, pa.scalar(b"", UNIT_TYPE), pa.scalar(b"\n", UNIT_TYPE))
        lines = pc.binary_join_element_wise(units[start : start + _SLICE], ended, pa.scalar(b"\t", UNIT_TYPE))
        yield views(lines)[1].tobytes()


def _character_lines(totals: Counter[int]) -> Iterator[bytes]:
    for code, count in sorted(totals.items(), key=lambda item: (-item[1], item[0])):
        yield f"{code:04X}\t{count}\n".encode()


def read_characters(path: Path) -> dict[int, int]:
    """Read a file of characters: occurrences by code point, in file order."""
    lines = (line.split("\t") for line in path.read_text(encoding="ascii").splitlines())
    return {int(code, 16): int(count) for code, count in lines}
