"""Hashes of strings of symbols, 32 bits, the same on every machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

WORD_BITS = 32
"""Bits of a hash."""

STEP = np.uint32(0x9E3779B1)
"""What the hash of a string is multiplied by when a symbol is added."""

FINISH = np.uint32(0x85EBCA6B)


def mixed(hashed: NDArray[np.uint32], salt: int) -> NDArray[np.uint32]:
    """Return hashes whose highest bits depend on all bits of some hashes, and on a salt."""
    found = hashed ^ (hashed >> np.uint32(15))
    found += np.uint32(salt)
    found *= FINISH
    return found


def top(mixed_hashes: NDArray[np.uint32], bits: int) -> NDArray[np.intp]:
    """Return the highest bits of each hash, as an index."""
    return (mixed_hashes >> np.uint32(WORD_BITS - bits)).astype(np.intp)
