"""Adds up units in bounded memory: what grows too large is sorted and goes to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, UnitRows, exact_sum, grouped, in_order, merged
from jprep.tokenizer.counting.units import BYTES, refuse_overflow, shaped

MAX_ROWS, MAX_BYTES = 500_000, 16 << 20
"""Distinct pieces, and bytes of them, that are held at a time; twice as many while they are added up."""

_SLICE = 1 << 16  # rows given at a time


class UnitCounter:
    """Takes pieces, gives units in order.

    Args:
        config: what a unit is.
        spill: takes what does not fit.
        where: is named by errors.

    Attributes:
        units: occurrences of all units that were given, or went to disk.

    Raises:
        InputError: anywhere, as soon as there are 2**63 occurrences.
    """

    def __init__(self, config: TokenizerConfig, spill: SpilledRuns, where: str) -> None:
        self._config, self._spill, self._where = config, spill, where
        self._parts: list[UnitRows] = []
        self._rows = self._bytes = self._total = 0
        self.units = 0

    def add_values(self, values: Any) -> None:
        """Count an Arrow array of byte strings."""
        found = pc.value_counts(values)
        self.add(found.field(0), found.field(1).to_numpy())

    def add_counts(self, counts: Mapping[str, int]) -> None:
        """Add strings and their counts."""
        values = pa.array([piece.encode() for piece in counts], BYTES)
        self.add(values, np.array(list(counts.values()), np.int64))

    def add(self, values: Any, counts: Any) -> None:
        """Add an Arrow array of byte strings, and their counts in int64."""
        self._total += exact_sum(counts)
        refuse_overflow(self._total, self._where)
        self._hold(values, counts)
        if self._full(2):
            self._add_up()
            if self._full(1):
                self._spill.write([in_order(self._take())])
                pa.default_memory_pool().release_unused()

    def _full(self, times: int) -> bool:
        return self._rows > times * MAX_ROWS or self._bytes > times * MAX_BYTES

    def _hold(self, values: Any, counts: Any) -> None:
        self._parts.append((values, counts))
        self._rows, self._bytes = self._rows + len(values), self._bytes + values.nbytes

    def _add_up(self) -> None:
        rows = grouped(self._parts)
        self._let_go()
        self._hold(*rows)

    def _let_go(self) -> None:
        self._parts, self._rows, self._bytes = [], 0, 0

    def _take(self) -> UnitRows:
        """What is held, as units."""
        if len(self._parts) != 1:
            self._add_up()
        units, counts = shaped(*self._parts[0], self._config, self._where)
        self._let_go()
        self.units += exact_sum(counts)
        refuse_overflow(self.units, self._where)
        return grouped([(units, counts)])

    def blocks(self) -> Iterator[UnitRows]:
        """All units in order, each once; nothing can be added afterwards."""
        rest = in_order(self._take())
        if not self._spill.paths:
            for start in range(0, len(rest[0]), _SLICE):
                yield rest[0][start : start + _SLICE], rest[1][start : start + _SLICE]
            return
        self._spill.write([rest])
        del rest
        pa.default_memory_pool().release_unused()
        yield from merged(self._spill.paths, self._spill.folder)
