"""Sorted runs: files of distinct units and their counts in code point order, and merging them.

UTF-8 sorts like code points, so units are compared as bytes.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_left, bisect_right
from collections.abc import Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.io.atomic import atomic_path, temporary_name
from jprep.io.os_errors import write_error
from jprep.tokenizer.counting.units import UNIT_TYPE, views

FAN_IN = 256
"""Maximum number of open runs; more are merged in rounds."""

UnitRows = tuple[Any, Any]
"""An Arrow array of distinct byte strings, and their counts as a numpy array of int64."""

_BATCH_ROWS, _BATCH_BYTES = 4096, 1 << 18
_SCHEMA = pa.schema([("unit", UNIT_TYPE), ("count", pa.int64())])
_FILE = b"ARROW1"  # the first bytes of a run; those of earlier versions are streams


class KeyRange(NamedTuple):
    """A range of units: from `low` up to, but not including, `high`; None for no limit."""

    low: bytes = b""
    high: bytes | None = None


ALL = KeyRange()


def exact_sum(counts: Any) -> int:
    """Return the sum of an int64 array as an unbounded integer."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def combine_equal(parts: Iterable[UnitRows]) -> UnitRows:
    """Sum the counts of equal units. Their total must be below 2**63; see `units.refuse_overflow`."""
    held = list(parts)
    coded = pa.concat_arrays([pa.array([], UNIT_TYPE), *(units for units, _ in held)]).dictionary_encode()
    # Arrow's `group_by` takes ten times as long on a million distinct values, and more memory.
    sums = np.zeros(len(coded.dictionary), np.int64)
    np.add.at(sums, coded.indices.to_numpy(), np.concatenate([sums[:0], *(counts for _, counts in held)]))
    return coded.dictionary, sums


def sort_rows(rows: UnitRows) -> UnitRows:
    """Sort rows in code point order."""
    order = pc.sort_indices(rows[0])
    return rows[0].take(order), rows[1][order.to_numpy()]


def write_run(path: Path, blocks: Iterable[UnitRows], keys: list[bytes] | None = None) -> int:
    """Write blocks of sorted rows as one run, and return the number of rows.

    Args:
        path: the run.
        blocks: the rows.
        keys: receives the first unit of each batch, of about the same number of rows.

    Raises:
        MachineError: the disk is full or not writable.
    """
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, _SCHEMA) as stream:
            for units, counts in blocks:
                for start, stop in _batches(units):
                    if keys is not None:
                        keys.append(units[start].as_py())
                    columns = [units[start:stop], pa.array(counts[start:stop])]
                    stream.write_batch(pa.record_batch(columns, schema=_SCHEMA))
                written += len(units)
    except OSError as error:
        raise write_error(error, path) from error
    return written


def _batches(units: Any) -> Iterator[tuple[int, int]]:
    """Yield ranges with few rows and few bytes; a merge keeps one of each run in memory."""
    offsets, start = views(units)[0], 0
    while start < len(units):
        fitting = int(np.searchsorted(offsets, offsets[start] + _BATCH_BYTES, "right")) - 1
        stop = max(start + 1, min(fitting, start + _BATCH_ROWS))
        yield start, stop
        start = stop


def commit_run(path: Path, blocks: Iterable[UnitRows], keys: list[bytes] | None = None) -> int:
    """Write a permanent run atomically; see `write_run`."""
    with atomic_path(path) as temporary:
        return write_run(temporary, blocks, keys)


def divide_keys(keys: Iterable[bytes], size: int, most: int) -> list[KeyRange]:
    """Divide all units into ranges with about `size` of some keys each, and at most `most` ranges."""
    ordered = sorted(keys)
    number = min(most, max(1, len(ordered) // size))
    borders = sorted({ordered[index * len(ordered) // number] for index in range(1, number)} - {b""})
    return [KeyRange(low, high) for low, high in zip([b"", *borders], [*borders, None], strict=True)]


def read_run(path: Path, keys: KeyRange = ALL) -> Generator[UnitRows, None, None]:
    """Yield the rows of a run in a range of units, in batches."""
    with pa.OSFile(str(path), "rb") as file:
        is_file = file.read(len(_FILE)) == _FILE
        file.seek(0)
        for batch in _from(pa.ipc.open_file(file), keys.low) if is_file else pa.ipc.open_stream(file):
            units, counts = batch.column(0), batch.column(1).to_numpy()
            start = _first(units, keys.low)
            stop = len(units) if keys.high is None else _first(units, keys.high)
            if start < stop:
                yield units[start:stop], counts[start:stop]
            if stop < len(units):
                return


def _from(file: Any, low: bytes) -> Iterator[Any]:
    """Yield the batches of a file from the first one that may have a unit."""
    numbers = range(file.num_record_batches)
    first = bisect_left(numbers, low, key=lambda number: file.get_batch(number).column(0)[-1].as_py()) if low else 0
    yield from map(file.get_batch, numbers[first:])


def _first(units: Any, key: bytes) -> int:
    """Return the row of the first unit that does not precede a key."""
    return bisect_left(range(len(units)), key, key=lambda row: units[row].as_py())


class _BlockReader:
    """Read position of a merge in sorted blocks: the block with their smallest remaining row."""

    def __init__(self, blocks: Iterator[UnitRows]) -> None:
        self._batches = blocks
        self._next()

    def _next(self) -> None:
        self._rows: UnitRows | None = next(self._batches, None)
        self._start = 0

    @property
    def last(self) -> bytes | None:
        """Last unit of the batch; None at the end of the run."""
        return None if self._rows is None else self._rows[0][-1].as_py()

    def take(self, limit: bytes) -> UnitRows:
        """Remove and return all rows of the batch up to a unit."""
        assert self._rows is not None
        units, counts = self._rows
        start = self._start
        self._start = bisect_right(range(len(units)), limit, lo=start, key=lambda row: units[row].as_py())
        taken = units[start : self._start], counts[start : self._start]
        if self._start == len(units):
            self._next()
        return taken


def merge_runs(paths: list[Path], folder: Path, keys: KeyRange = ALL) -> Iterator[UnitRows]:
    """Yield the merged rows of many runs in blocks, in order, with the counts of equal units added.

    Args:
        paths: the runs. The sum of all their counts must be below 2**63.
        folder: directory for intermediate runs if there are very many; they are deleted.
        keys: the units to read.
    """
    with contextlib.ExitStack() as stack:
        while len(paths) > FAN_IN:
            spill = stack.enter_context(SpilledRuns(folder, f"{paths[0].name.partition('.')[0]}-round"))
            for start in range(0, len(paths), FAN_IN):
                spill.write(_merge_once(paths[start : start + FAN_IN], keys))
            paths = spill.paths
        yield from _merge_once(paths, keys)


def _merge_once(paths: list[Path], keys: KeyRange) -> Iterator[UnitRows]:
    with contextlib.ExitStack() as stack:
        yield from merge_blocks([stack.enter_context(contextlib.closing(read_run(path, keys))) for path in paths])


def merge_blocks(streams: Sequence[Iterator[UnitRows]]) -> Iterator[UnitRows]:
    """Yield the merged rows of several streams of sorted blocks, with the counts of equal units added."""
    readers = [_BlockReader(blocks) for blocks in streams]
    while lasts := [reader.last for reader in readers if reader.last is not None]:
        limit = min(lasts)
        rows = [reader.take(limit) for reader in readers if reader.last is not None]
        yield rows[0] if len(readers) == 1 else sort_rows(combine_equal(rows))


class SpilledRuns:
    """Temporary runs of a task.

    They are deleted at the end of the `with` block, and recognised as leftovers if the task is killed.

    Args:
        folder: their directory.
        name: prefix of their names, unique per task.
    """

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self._name = folder, name
        self.paths: list[Path] = []

    def __enter__(self) -> SpilledRuns:
        return self

    def __exit__(self, *_: object) -> None:
        for path in self.paths:
            path.unlink(missing_ok=True)

    def write(self, blocks: Iterable[UnitRows]) -> None:
        """Write another run."""
        self.paths.append(temporary_name(self.folder / f"{self._name}.{len(self.paths):06d}"))
        write_run(self.paths[-1], blocks)
