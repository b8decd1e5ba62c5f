"""Masking, compared with a reference implementation of its rule, and its shares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import IGNORE_INDEX, Masking, threshold
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import bits, key

MASK, NEWLINE, VOCABULARY = 39, 6, 40
SPECIAL = SpecialIds(before=(0,), after=(2,), pad=1, mask=MASK, special=(0, 1, 2, 3, MASK), vocab_size=VOCABULARY)


def word(row_key: int, counter: int) -> int:
    return int(bits(np.array([row_key], np.uint64), np.array([counter], np.uint64))[0])


def reference(ids, length, row_key, starts, config):
    """Apply the rule of docs/sampling.md to one row, token by token."""
    masked, labels, first = list(ids), [IGNORE_INDEX] * len(ids), 0
    for column, token in enumerate(ids):
        if not config.whole_word or starts[column] or token == NEWLINE or ids[column - 1] in SPECIAL.special:
            first = column
        if column >= length or token in SPECIAL.special or word(row_key, first) >> 32 >= threshold(config.rate):
            continue
        labels[column], kind = token, word(row_key, 2**32 + column) >> 32
        if kind < threshold(config.masked):
            masked[column] = MASK
        elif kind < threshold(config.masked) + threshold(config.random):
            ordinary = [token for token in range(VOCABULARY) if token not in SPECIAL.special]
            masked[column] = ordinary[word(row_key, 2 * 2**32 + column) * len(ordinary) >> 64]
    return masked, labels


@given(
    st.lists(st.lists(st.tuples(st.integers(0, MASK), st.booleans()), min_size=9, max_size=9), min_size=1, max_size=4),
    st.booleans(),
    st.sampled_from([(0.15, 0.8, 0.1), (0.5, 0.5, 0.5), (1.0, 0.0, 1.0), (1.0, 0.3, 0.3), (0.0, 1.0, 0.0)]),
    st.data(),
)
def test_matches_the_reference(rows, whole_word, shares, data):
    rate, masked, random = shares
    config = MaskingConfig(rate=rate, masked=masked, random=random, whole_word=whole_word)
    ids = np.array([[token for token, _ in row] for row in rows], np.int32)
    starts = np.array([[start for _, start in row] for row in rows])
    lengths = np.array([data.draw(st.integers(0, 9)) for _ in rows], np.int32)
    keys, before = key(np.arange(len(rows)), "mask"), ids.copy()
    found = Masking(config, SPECIAL, NEWLINE)(ids, lengths, keys, starts)
    for row in range(len(rows)):
        expected = reference(ids[row].tolist(), lengths[row], int(keys[row]), starts[row], config)
        assert (found.ids[row].tolist(), found.labels[row].tolist()) == expected
    assert (ids == before).all()


# Listed in docs/sampling.md.
VECTORS = {
    False: ([10, 33, 9, 13, 33, 15, 16, 17, 18, 19, 39, 39, 22, 23], {2, 3, 5, 11, 12, 13}),
    True: ([10, 11, 9, 39, 33, 19, 16, 17, 18, 19, 39, 39, 22, 39], {3, 4, 5, 6, 11, 12, 13, 14}),
}


@pytest.mark.parametrize("whole_word", [False, True])
def test_masks_are_stable(whole_word):
    config = MaskingConfig(rate=0.5, masked=0.4, random=0.4, whole_word=whole_word)
    ids = np.array([[0, *range(10, 24), 2]], np.int32)
    starts = np.array([[False, *[True, False] * 7, False]])
    found = Masking(config, SPECIAL)(ids, np.array([16], np.int32), key(1, "train", 0, 4, "mask"), starts)
    expected, columns = VECTORS[whole_word]
    assert found.ids[0].tolist() == [0, *expected, 2]
    assert set((found.labels[0] != IGNORE_INDEX).nonzero()[0].tolist()) == columns


def many(config: MaskingConfig, special: SpecialIds, tokens: int = 1 << 19):
    ids = np.random.default_rng(1).integers(4, special.vocab_size - 1, (tokens // 512, 512)).astype(np.int32)
    starts = np.random.default_rng(2).random(ids.shape) < 0.6
    lengths = np.full(len(ids), 512, np.int32)
    return ids, starts, Masking(config, special)(ids, lengths, key(np.arange(len(ids))), starts)


LARGE = SpecialIds(pad=1, mask=31_999, special=(0, 1, 2, 3, 31_999), vocab_size=32_000)


@pytest.mark.parametrize("whole_word", [False, True])
def test_shares_are_as_configured(whole_word):
    ids, _, found = many(MaskingConfig(whole_word=whole_word), LARGE)
    hidden = found.labels != IGNORE_INDEX
    assert abs(hidden.mean() - 0.15) < 0.005
    assert (found.labels[hidden] == ids[hidden]).all()
    assert (found.ids[~hidden] == ids[~hidden]).all()
    seen = found.ids[hidden]
    assert abs((seen == 31_999).mean() - 0.8) < 0.01
    assert abs((seen == ids[hidden]).mean() - 0.1) < 0.01
    replaced = seen[(seen != 31_999) & (seen != ids[hidden])]
    assert replaced.min() >= 4
    assert replaced.max() < 31_999
    assert abs(np.histogram(replaced, 8, (4, 31_999))[0] / len(replaced) - 1 / 8).max() < 0.02


def test_whole_words_are_masked():
    _, starts, found = many(MaskingConfig(whole_word=True), LARGE, 1 << 14)
    hidden = found.labels != IGNORE_INDEX
    starts[:, 0] = True
    inside = ~starts[:, 1:]
    assert (hidden[:, 1:][inside] == hidden[:, :-1][inside]).all()
    assert (hidden[:, 1:][~inside] != hidden[:, :-1][~inside]).any()


def test_keys_change_the_masked_tokens():
    ids = np.full((2, 512), 9, np.int32)
    labels = Masking(MaskingConfig(), LARGE)(ids, np.array([512, 512], np.int32), key(np.array([1, 2]))).labels
    assert (labels[0] != labels[1]).any()


@pytest.mark.parametrize(
    ("config", "special", "what"),
    [
        (MaskingConfig(rate=1.5), SPECIAL, "rate"),
        (MaskingConfig(masked=-0.1), SPECIAL, "masked"),
        (MaskingConfig(masked=0.8, random=0.3), SPECIAL, "add up to more than 1"),
        (MaskingConfig(), SpecialIds(vocab_size=9), "no mask token"),
    ],
)
def test_invalid_values_are_rejected(config, special, what):
    with pytest.raises(ConfigError, match=what):
        Masking(config, special)
