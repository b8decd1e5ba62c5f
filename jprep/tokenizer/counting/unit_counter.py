"""Count units in bounded memory: what grows too large is sorted and written to disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.sorted_runs import SpilledRuns, UnitRows, combine_equal, exact_sum, merge_runs, sort_rows
from jprep.tokenizer.counting.units import UNIT_TYPE, refuse_overflow, to_units

MAX_ROWS, MAX_BYTES = 500_000, 16 << 20
"""Maximum distinct pieces, and bytes of them, kept in memory; twice as many while they are added up."""

_SLICE = 1 << 16  # rows per block


class UnitCounter:
    """Count pieces, and return units in order.

    Args:
        config: defines units; None if the pieces are units.
        spill: stores what does not fit into memory.
        where: location for error messages.

    Attributes:
        units: occurrences of all units that were returned or written to disk.

    Raises:
        InputError: from any method, once there are 2**63 occurrences.
    """

    def __init__(self, config: TokenizerConfig | None, spill: SpilledRuns, where: str) -> None:
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
        values = pa.array([piece.encode() for piece in counts], UNIT_TYPE)
        self.add(values, np.array(list(counts.values()), np.int64))

    def add(self, values: Any, counts: Any) -> None:
        """Add an Arrow array of byte strings and their counts as int64."""
        self._total += exact_sum(counts)
        refuse_overflow(self._total, self._where)
        self._keep(values, counts)
        if self._full(2):
            self._add_up()
            if self._full(1):
                self._spill.write([sort_rows(self._take())])
                pa.default_memory_pool().release_unused()

    def _full(self, times: int) -> bool:
        return self._rows > times * MAX_ROWS or self._bytes > times * MAX_BYTES

    def _keep(self, values: Any, counts: Any) -> None:
        self._parts.append((values, counts))
        self._rows, self._bytes = self._rows + len(values), self._bytes + values.nbytes

    def _add_up(self) -> None:
        rows = combine_equal(self._parts)
        self._clear()
        self._keep(*rows)

    def _clear(self) -> None:
        self._parts, self._rows, self._bytes = [], 0, 0

    def _take(self) -> UnitRows:
        """Return the pieces in memory as units."""
        if len(self._parts) != 1:
            self._add_up()
        units, counts = self._parts[0]
        self._clear()
        if self._config:
            units, counts = combine_equal([to_units(units, counts, self._config, self._where)])
        self.units += exact_sum(counts)
        refuse_overflow(self.units, self._where)
        return units, counts

    def blocks(self) -> Iterator[UnitRows]:
        """Yield all distinct units in order; nothing can be added afterwards."""
        rest = sort_rows(self._take())
        if not self._spill.paths:
            for start in range(0, len(rest[0]), _SLICE):
                yield rest[0][start : start + _SLICE], rest[1][start : start + _SLICE]
            return
        self._spill.write([rest])
        del rest
        pa.default_memory_pool().release_unused()
        yield from merge_runs(self._spill.paths, self._spill.folder)
