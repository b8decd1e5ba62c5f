"""The hash: against a second writing of its formulas, and against bits that may never change."""

from __future__ import annotations

import subprocess
import sys
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.random.counter_bits import below, bits, key, mix

WORD = (1 << 64) - 1
INTEGERS = st.integers(0, (1 << 63) - 1)


def mix_of(x: int) -> int:
    x ^= x >> 30
    x = x * 0xBF58476D1CE4E5B9 & WORD
    x ^= x >> 27
    x = x * 0x94D049BB133111EB & WORD
    return x ^ x >> 31


def key_of(*parts: int | str) -> int:
    state = len(parts)
    for part in parts:
        words = [part]
        if isinstance(part, str):
            data = part.encode()
            words = [2**63 + len(data), *(int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8))]
        for word in words:
            state = mix_of((state + 0x9E3779B97F4A7C15 & WORD) ^ word)
    return state


def bits_of(k: int, counter: int) -> int:
    return mix_of(mix_of(counter * 0x9E3779B97F4A7C15 + k & WORD) ^ k)


# docs/sampling.md gives the same.
KEYS = {
    (0,): 0x910A2DEC89025CC1,
    (1, "train", 0, 0, "mask"): 0xB4505852A6720567,
    ("吾輩は猫である", 5): 0x956388090A275663,
}


BITS = [0xBDB37598B0845E4C, 0xED9545BE966A339E, 0xA399FFCFF5A38DD6]


@pytest.mark.parametrize(("parts", "expected"), KEYS.items())
def test_keys_never_change(parts, expected):
    assert int(key(*parts)[0]) == expected == key_of(*parts)


def test_bits_never_change():
    found = bits(key(1, "train", 0, 0, "mask"), np.arange(3, dtype=np.uint64))
    assert [int(word) for word in found] == BITS
    assert [bits_of(0xB4505852A6720567, counter) for counter in range(3)] == BITS


@given(st.lists(INTEGERS | st.text(max_size=20), min_size=1, max_size=5), INTEGERS)
def test_the_array_code_says_what_the_formulas_say(parts, counter):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = key(*parts)
        assert int(found[0]) == key_of(*parts)
        assert int(bits(found, np.array([counter], np.uint64))[0]) == bits_of(key_of(*parts), counter)


@given(st.lists(INTEGERS, min_size=1, max_size=8))
def test_arrays_are_keyed_element_by_element(numbers):
    assert key(7, np.array(numbers), "x").tolist() == [key_of(7, number, "x") for number in numbers]


def test_blocks_of_rows_make_no_difference():
    keys, counters = key(np.arange(300)).reshape(-1, 1), np.arange(400, dtype=np.uint64)
    whole = bits(keys, counters)
    assert whole.shape == (300, 400)
    for row in (0, 81, 82, 299):
        assert (whole[row] == bits(keys[row], counters)).all()


@given(st.integers(1, 1 << 32), st.integers(0, WORD))
def test_below_is_the_high_half_of_the_product(limit, word):
    assert int(below(limit, np.array([word], np.uint64))[0]) == word * limit >> 64


def test_different_tuples_have_different_keys():
    tuples = [(1, 2), (2, 1), (12,), ("1", "2"), ("12",), ("12", ""), ("", "12"), (1, 2, 0), ("a\0",), ("a",), (97,)]
    assert len({int(key(*parts)[0]) for parts in tuples}) == len(tuples)


@pytest.mark.parametrize("bad", [-1, 1 << 63, np.array([3, -1])])
def test_integers_out_of_range_are_refused(bad):
    with pytest.raises(ValueError, match="from 0 to below"):
        key(1, bad)


@pytest.mark.parametrize("keys", [key(np.arange(1 << 16)), key(3)], ids=["of keys", "of counters"])
def test_every_bit_is_fair(keys):
    """Of 65,536 coins, 4.9 standard deviations are 627."""
    words = bits(keys, np.arange(1 << 16, dtype=np.uint64) if len(keys) == 1 else np.zeros(1, np.uint64))
    ones = (words.reshape(-1, 1) >> np.arange(64, dtype=np.uint64) & np.uint64(1)).sum(axis=0).astype(np.int64)
    assert abs(ones - (1 << 15)).max() < 627


def test_one_bit_changes_half_of_the_bits():
    base = np.arange(4096, dtype=np.uint64)
    for bit in range(0, 62, 7):
        changed = key(base.astype(np.int64)) ^ key((base ^ np.uint64(1 << bit)).astype(np.int64))
        share = np.unpackbits(changed.view(np.uint8)).mean()
        assert abs(share - 0.5) < 0.006


def test_neighbouring_words_are_unrelated():
    words = mix(bits(key(9), np.arange(1 << 16, dtype=np.uint64))).astype(np.float64)
    assert abs(np.corrcoef(words[:-1], words[1:])[0, 1]) < 0.02


def test_pythons_hash_seed_does_not_matter():
    code = "from jprep.random.counter_bits import key; print(int(key(1, 'train', 0, 0, 'mask')[0]))"
    found = subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": "7"}, capture_output=True, check=True)
    assert int(found.stdout) == 0xB4505852A6720567
