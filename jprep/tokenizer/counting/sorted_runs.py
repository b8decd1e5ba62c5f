"""Sorted runs: files of distinct units and their counts, in code point order, and how many become one.

UTF-8 sorts as code points do, so units are compared as bytes.
"""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.io.atomic import atomic_path, temporary_name, write_error
from jprep.tokenizer.counting.units import BYTES, views

FAN_IN = 256
"""Runs that are open at a time; more are merged in rounds."""

UnitRows = tuple[Any, Any]
"""An Arrow array of distinct byte strings, and their counts in a numpy array of int64."""

_BATCH_ROWS, _BATCH_BYTES = 4096, 1 << 18
_SCHEMA = pa.schema([("unit", BYTES), ("count", pa.int64())])


def exact_sum(counts: Any) -> int:
    """The sum of an array of int64, however large."""
    return (int((counts >> 32).sum()) << 32) + int((counts & 0xFFFFFFFF).sum())


def grouped(parts: Iterable[UnitRows]) -> UnitRows:
    """Add up the counts of equal units. Their total is below 2**63: see `units.refuse_overflow`."""
    held = list(parts)
    coded = pa.concat_arrays([pa.array([], BYTES), *(units for units, _ in held)]).dictionary_encode()
    # Not Arrow's `group_by`: on a million distinct values it takes ten times as long, and memory besides.
    sums = np.zeros(len(coded.dictionary), np.int64)
    np.add.at(sums, coded.indices.to_numpy(), np.concatenate([sums[:0], *(counts for _, counts in held)]))
    return coded.dictionary, sums


def in_order(rows: UnitRows) -> UnitRows:
    """The same rows in code point order."""
    order = pc.sort_indices(rows[0])
    return rows[0].take(order), rows[1][order.to_numpy()]


def write_run(path: Path, blocks: Iterable[UnitRows]) -> int:
    """Write blocks of sorted rows as one run; returns the number of rows.

    Raises:
        MachineError: the disk is full or not writable.
    """
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, _SCHEMA) as stream:
            for units, counts in blocks:
                for start, stop in _batches(units):
                    columns = [units[start:stop], pa.array(counts[start:stop])]
                    stream.write_batch(pa.record_batch(columns, schema=_SCHEMA))
                written += len(units)
    except OSError as error:
        raise write_error(error, path) from error
    return written


def _batches(units: Any) -> Iterator[tuple[int, int]]:
    """Stretches of few rows and few bytes: what a merge holds of each run."""
    offsets, start = views(units)[0], 0
    while start < len(units):
        fitting = int(np.searchsorted(offsets, offsets[start] + _BATCH_BYTES, "right")) - 1
        stop = max(start + 1, min(fitting, start + _BATCH_ROWS))
        yield start, stop
        start = stop


def commit_run(path: Path, blocks: Iterable[UnitRows]) -> int:
    """Write a lasting run; see `write_run`."""
    with atomic_path(path) as temporary:
        return write_run(temporary, blocks)


class _Head:
    """What a merge holds of one run: the batch that its smallest row lies in."""

    def __init__(self, path: Path, stack: contextlib.ExitStack) -> None:
        self._stream = pa.ipc.open_stream(stack.enter_context(pa.OSFile(str(path), "rb")))
        self._next()

    def _next(self) -> None:
        batch = next(self._stream, None)
        self._rows: UnitRows | None = None if batch is None else (batch.column(0), batch.column(1).to_numpy())
        self._start = 0

    @property
    def last(self) -> bytes | None:
        """The last unit of the batch; None at the run's end."""
        return None if self._rows is None else self._rows[0][-1].as_py()

    def take(self, limit: bytes) -> UnitRows:
        """Take all rows of the batch up to this unit."""
        assert self._rows is not None
        units, counts = self._rows
        start = self._start
        self._start = bisect_right(range(len(units)), limit, lo=start, key=lambda row: units[row].as_py())
        taken = units[start : self._start], counts[start : self._start]
        if self._start == len(units):
            self._next()
        return taken


def merged(paths: list[Path], folder: Path) -> Iterator[UnitRows]:
    """The rows of many runs in order, block by block; each unit once, with the sum of its counts.

    Args:
        paths: the runs. The sum of all their counts is below 2**63.
        folder: where runs of runs go, if there are very many; they are deleted.
    """
    with contextlib.ExitStack() as stack:
        while len(paths) > FAN_IN:
            spill = stack.enter_context(SpilledRuns(folder, f"{paths[0].name.partition('.')[0]}-round"))
            for start in range(0, len(paths), FAN_IN):
                spill.write(_merged(paths[start : start + FAN_IN]))
            paths = spill.paths
        yield from _merged(paths)


def _merged(paths: list[Path]) -> Iterator[UnitRows]:
    with contextlib.ExitStack() as stack:
        heads = [_Head(path, stack) for path in paths]
        while lasts := [head.last for head in heads if head.last is not None]:
            limit = min(lasts)
            rows = [head.take(limit) for head in heads if head.last is not None]
            yield rows[0] if len(heads) == 1 else in_order(grouped(rows))


class SpilledRuns:
    """Runs that live as long as a task: deleted at the end of the block, and known as leftovers if it is killed.

    Args:
        folder: where they go.
        name: begins their names, so that those of two tasks do not meet.
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
        """Write one more run."""
        self.paths.append(temporary_name(self.folder / f"{self._name}.{len(self.paths):06d}"))
        write_run(self.paths[-1], blocks)
