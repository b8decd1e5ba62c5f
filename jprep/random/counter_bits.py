"""Counter-based random bits: a hash of a key and a counter, in 64-bit integers.

`docs/sampling.md` has the formulas and test vectors. The results must never change: every batch, mask and initial
weight depends on them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

UInt64Array = npt.NDArray[np.uint64]
"""Array of 64-bit integers. Sums and products are modulo 2**64."""

GOLDEN = 0x9E3779B97F4A7C15
"""2**64 divided by the golden ratio, rounded to an odd number: a factor that spreads values over all bits."""
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
TEXT = 1 << 63
"""Added to the length of a part that is text, so that no integer gives the same number."""

_GOLDEN, _FIRST, _SECOND = (np.uint64(constant) for constant in (GOLDEN, FIRST, SECOND))
_S27, _S30, _S31, _S32 = (np.uint64(shift) for shift in (27, 30, 31, 32))
_LOW = np.uint64(0xFFFFFFFF)
_BLOCK = 1 << 15  # integers that fit a core's cache during the twenty or so operations on them


def key(*parts: int | str | npt.NDArray[np.int64] | UInt64Array) -> UInt64Array:
    """Make a key from a tuple, e.g. `key(seed, split, epoch, index, "mask")`.

    Args:
        parts: integers from 0 to below 2**63, strings, or arrays of such integers, which are broadcast.

    Returns:
        One key per element, as an array of at least one dimension: (1,) if no part is an array.

    Raises:
        ValueError: an integer is out of range.
    """
    state: UInt64Array = np.full(1, len(parts), np.uint64)
    for part in parts:
        for integer in _integers(part):
            state = mix((state + _GOLDEN) ^ integer)
    return state


def mix(values: UInt64Array) -> UInt64Array:
    """Scramble each integer with a bijection. Takes arrays of at least one dimension."""
    values = values ^ (values >> _S30)
    values *= _FIRST
    values ^= values >> _S27
    values *= _SECOND
    values ^= values >> _S31
    return values


def bits(keys: UInt64Array, counters: UInt64Array) -> UInt64Array:
    """Return 64 random bits for each pair of key and counter; the two are broadcast.

    Args:
        keys: results of `key`.
        counters: uint64, which of the key's numbers to return.
    """
    first = counters * _GOLDEN + keys
    if first.ndim < 2 or first.size <= _BLOCK:
        return mix(mix(first) ^ keys)
    keys = np.broadcast_to(keys, first.shape)
    rows = max(1, _BLOCK * len(first) // first.size)
    for row in range(0, len(first), rows):
        first[row : row + rows] = mix(mix(first[row : row + rows]) ^ keys[row : row + rows])
    return first


def below(limit: int | UInt64Array, numbers: UInt64Array) -> UInt64Array:
    """Map random numbers to integers from 0 to below the limit: `number * limit // 2**64`, exactly.

    Args:
        limit: at least 1, at most 2**32; one for all numbers or one per number.
        numbers: random bits, see `bits`.
    """
    factor = np.uint64(limit) if isinstance(limit, int) else limit
    high = (numbers >> _S32) * factor
    high += ((numbers & _LOW) * factor) >> _S32
    high >>= _S32
    return high


def _integers(part: int | str | npt.NDArray[np.int64] | UInt64Array) -> list[UInt64Array]:
    if isinstance(part, str):
        data = part.encode()
        padded = np.frombuffer(data + bytes(-len(data) % 8), "<u8").astype(np.uint64)
        return [np.full(1, TEXT + len(data), np.uint64), *padded.reshape(-1, 1)]
    if isinstance(part, np.ndarray):
        if len(part) and (part.min() < 0 or part.max() >= TEXT):
            raise ValueError("integers in a key must be from 0 to below 2**63")
        return [part.astype(np.uint64)]
    if not 0 <= part < TEXT:
        raise ValueError(f"integers in a key must be from 0 to below 2**63, got {part}")
    return [np.full(1, part, np.uint64)]
