"""The permutation: a bijection, the same for ever, and without an order that one could see."""

from __future__ import annotations

from collections import Counter
from math import factorial, isqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.random.counter_bits import bits, key
from jprep.random.permutation import MOST, permuted

TEN = [7, 6, 9, 4, 1, 2, 3, 8, 5, 0]
HUGE = [1786665622584723002, 901954470143744991, 3591780690870487427]


def word(row_key: int, counter: int) -> int:
    return int(bits(np.array([row_key], np.uint64), np.array([counter], np.uint64))[0])


def reference(x: int, n: int, row_key: int) -> int:
    """docs/sampling.md's rule for one position."""
    columns = isqrt(n) + (isqrt(n) ** 2 < n)
    rows = -(-n // columns)
    while True:
        r, c = divmod(x, columns)
        for number in range(12):
            if number % 2 == 0:
                c = (c + (word(word(row_key, number), r) * columns >> 64)) % columns
            else:
                r = (r + (word(word(row_key, number), c) * rows >> 64)) % rows
        x = r * columns + c
        if x < n:
            return x


@given(st.integers(1, 50) | st.integers(1, MOST), st.integers(0, MOST), st.integers(0, 1 << 40))
def test_the_array_code_says_what_the_rule_says(n, position, seed):
    expected = reference(position % n, n, int(key(seed)[0]))
    assert permuted(np.array([position % n]), n, key(seed)).tolist() == [expected]


@pytest.mark.parametrize("n", [*range(1, 66), 99, 100, 101, 1000, 4097, 65_537])
def test_it_is_a_bijection(n):
    assert (np.sort(permuted(np.arange(n), n, key(n))) == np.arange(n)).all()


@given(st.integers(1, MOST), st.integers(0, 1 << 40), st.data())
def test_large_ones_stay_in_range_and_are_one_to_one(n, seed, data):
    positions = np.array(data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=40, unique=True)))
    found = permuted(positions, n, key(seed))
    assert found.min() >= 0
    assert found.max() < n
    assert len(set(found.tolist())) == len(positions)


def test_it_never_changes():
    assert permuted(np.arange(10), 10, key(1, "train", 0, "order")).tolist() == TEN
    assert permuted(np.arange(3), MOST, key(1, "train", 0, "order")).tolist() == HUGE


def test_rows_may_have_keys_of_their_own():
    keys = key(np.array([1, 2, 3]))
    found = permuted(np.array([5, 5, 5]), 1000, keys)
    assert [permuted(np.array([5]), 1000, keys[i : i + 1])[0] for i in range(3)] == found.tolist()


@pytest.mark.parametrize("n", [3, 4, 5])
def test_all_orders_are_about_as_frequent(n):
    """Chi-squared within six standard deviations of its mean."""
    tries = 20 * factorial(n) ** 2 if n < 5 else 12_000
    keys = key(np.repeat(np.arange(tries), n), "test")
    found = permuted(np.tile(np.arange(n), tries), n, keys).reshape(tries, n)
    counts, expected = Counter(map(tuple, found.tolist())), tries / factorial(n)
    freedom = factorial(n) - 1
    assert len(counts) == factorial(n)
    assert sum((count - expected) ** 2 / expected for count in counts.values()) < freedom + 6 * (2 * freedom) ** 0.5


def test_neighbours_are_torn_apart():
    """The distance of neighbours is spread evenly over [1, n), and so is where each position goes."""
    n, tries = 500, 50_000
    keys = key(np.repeat(np.arange(tries), 2), "test")
    found = permuted(np.tile([7, 8], tries), n, keys).reshape(tries, 2)
    for values in ((found[:, 1] - found[:, 0]) % n - 1, found[:, 0]):
        counts = np.bincount(values, minlength=n - 1)[: n - 1]
        expected = tries / (n - 1)
        assert ((counts - expected) ** 2 / expected).sum() < n + 6 * (2 * n) ** 0.5


@pytest.mark.parametrize(("positions", "n"), [([0], 0), ([0], MOST + 1), ([5], 5), ([-1], 5)])
def test_what_is_out_of_range_is_refused(positions, n):
    with pytest.raises(ValueError, match=r"permutation|position"):
        permuted(np.array(positions), n, key(1))
