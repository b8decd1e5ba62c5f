"""What all passes over training data share: the order of batches, and when weights enter the average."""

from __future__ import annotations

import numpy as np

from jprep.random.counter_bits import key
from jprep.random.permutation import permuted

_SNAPSHOTS = 8  # how often per pass the weights enter the average


def batch_order(number: int, epoch: int, seed: int) -> list[int]:
    """Return the numbers of all batches, in another order in each pass."""
    if not number:
        return []
    order: list[int] = permuted(np.arange(number), number, key(seed, epoch)).tolist()
    return order


def enters_average(done: int, number: int) -> bool:
    """Return whether the weights enter the average after so many of a pass's batches."""
    return done * _SNAPSHOTS // number > (done - 1) * _SNAPSHOTS // number
