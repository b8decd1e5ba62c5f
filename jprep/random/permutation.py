"""Permutations of [0, n), computed element by element without a list of n integers."""

from __future__ import annotations

from math import isqrt

import numpy as np
import numpy.typing as npt

from jprep.random.counter_bits import UInt64Array, below, bits

ROUNDS = 12

MOST = 1 << 62
"""The largest n."""


def permuted(positions: npt.NDArray[np.int64], n: int, keys: UInt64Array) -> npt.NDArray[np.int64]:
    """Return the images of some positions under a permutation of [0, n), one permutation per key.

    A Feistel network over a rectangle of at least n cells, with sides of about the square root of n. A result outside
    [0, n) goes through the network again until it falls inside (cycle walking), which is rare: the rectangle has at
    most one row too many.

    Args:
        positions: int64 (rows,), from 0 to below n.
        n: from 1 to 2**62.
        keys: results of `key`, one for all rows, or one per row.

    Raises:
        ValueError: n or a position is out of range.
    """
    if not 1 <= n <= MOST:
        raise ValueError(f"a permutation must have 1 to 2**62 elements, got {n}")
    if len(positions) and (positions.min() < 0 or positions.max() >= n):
        raise ValueError(f"positions must be in [0, {n})")
    where = positions.astype(np.uint64)
    keys = np.broadcast_to(keys, where.shape)
    rounds = [bits(keys, np.full_like(keys, number)) for number in range(ROUNDS)]
    outside = np.arange(len(where))
    while len(outside):
        where[outside] = _network(where[outside], n, [numbers[outside] for numbers in rounds])
        outside = outside[where[outside] >= np.uint64(n)]
    return where.astype(np.int64)


def _network(cells: UInt64Array, n: int, rounds: list[UInt64Array]) -> UInt64Array:
    """Pass cells through the network once.

    Rounds alternate: each shifts columns by a hash of the row, or rows by a hash of the column.
    """
    columns = isqrt(n - 1) + 1
    rows = -(-n // columns)
    wide, high = np.uint64(columns), np.uint64(rows)
    row, column = cells // wide, cells % wide
    for number, numbers in enumerate(rounds):
        if number % 2:
            row = (row + below(rows, bits(numbers, column))) % high
        else:
            column = (column + below(columns, bits(numbers, row))) % wide
    return row * wide + column
