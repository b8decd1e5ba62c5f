"""A permutation of [0, n) that is computed element by element: no list of n integers anywhere."""

from __future__ import annotations

from math import isqrt

import numpy as np
import numpy.typing as npt

from jprep.random.counter_bits import UInt64Array, below, bits

ROUNDS = 12

MOST = 1 << 62
"""The largest n."""


def permuted(positions: npt.NDArray[np.int64], n: int, keys: UInt64Array) -> npt.NDArray[np.int64]:
    """Where each position goes: a bijection of [0, n) for each key.

    A Feistel network over a rectangle of at least n cells, about the square root of n on a side. What falls outside
    [0, n) is sent on through the network until it falls inside, which is seldom: the rectangle has at most one row too
    many.

    Args:
        positions: int64 (rows,), from 0 to below n.
        n: from 1 to 2**62.
        keys: from `key`, one for all rows, or one for each.

    Raises:
        ValueError: n or a position is out of range.
    """
    if not 1 <= n <= MOST:
        raise ValueError(f"a permutation is of 1 to 2**62 elements, not {n}")
    if len(positions) and (positions.min() < 0 or positions.max() >= n):
        raise ValueError(f"a position is not in [0, {n})")
    where = positions.astype(np.uint64)
    keys = np.broadcast_to(keys, where.shape)
    rounds = [bits(keys, np.full_like(keys, number)) for number in range(ROUNDS)]
    outside = np.arange(len(where))
    while len(outside):
        where[outside] = _network(where[outside], n, [words[outside] for words in rounds])
        outside = outside[where[outside] >= np.uint64(n)]
    return where.astype(np.int64)


def _network(cells: UInt64Array, n: int, rounds: list[UInt64Array]) -> UInt64Array:
    """Send cells through the network once. Rows and columns take turns: one is turned by a hash of the other."""
    columns = isqrt(n - 1) + 1
    rows = -(-n // columns)
    wide, high = np.uint64(columns), np.uint64(rows)
    row, column = cells // wide, cells % wide
    for number, words in enumerate(rounds):
        if number % 2:
            row = (row + below(rows, bits(words, column))) % high
        else:
            column = (column + below(columns, bits(words, row))) % wide
    return row * wide + column
