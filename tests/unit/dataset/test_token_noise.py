"""Noise for sampling tokens: test vectors of docs/sampling.md, independence of ranks, and the right distribution."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, open_split_data
from jprep.dataset.sampling.special_ids import special_ids
from jprep.dataset.sampling.token_noise import gumbel_noise, id_words, mix32, noise_keys
from jprep.testing.backend_suite.data import write_suite_dataset, write_suite_tokenizer
from jprep.tokenizer import load_tokenizer
from tests.unit.test_counter_bits import bits_of, key_of


def mix_of(word: int) -> int:
    """A second implementation, in Python's integers."""
    word ^= word >> 16
    word = word * 0x85EBCA6B & 0xFFFFFFFF
    word ^= word >> 13
    word = word * 0xC2B2AE35 & 0xFFFFFFFF
    return word ^ word >> 16


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1))
def test_the_mixer_is_that_of_the_documentation(words: list[int]) -> None:
    assert mix32(np.array(words, np.uint32)).tolist() == list(map(mix_of, words))


def test_the_test_vectors_of_the_documentation() -> None:
    keys = noise_keys(1, "train", np.array([0]), np.array([4]), 6)
    assert key_of(1, "train", 0, 4, "replace") == 0x47FF99DFF7E8A466
    assert keys[0, 5] == bits_of(0x47FF99DFF7E8A466, 5) >> 32 == 0xC7077013
    words = id_words(3)
    assert words.tolist() == [mix_of((number + 1) * 0x9E3779B9 & 0xFFFFFFFF) for number in range(3)]
    assert words.tolist() == [0x92CA2F0E, 0x3CD6E3F3, 0x1B147DCC]
    assert mix32(words ^ keys[0, 5]).tolist() == [0xA8C7EA16, 0xE1E35061, 0xC875C1F8]
    noise = gumbel_noise(keys[0, 5:], words)[0]
    assert noise == pytest.approx([-0.07395122010996195, -0.7609235152628373, -0.4240079884656512], rel=1e-12)


def test_each_id_has_another_word() -> None:
    assert len(np.unique(id_words(300_000))) == 300_000


def test_samples_follow_the_softmax() -> None:
    logits = np.array([2.0, 1.0, 0.0, -1.0, -3.0, 1.5])
    keys = noise_keys(3, "train", np.zeros(500, np.int64), np.arange(500), 100).ravel()
    counts = np.bincount((logits + gumbel_noise(keys, id_words(6))).argmax(1), minlength=6)
    expected = np.exp(logits) / np.exp(logits).sum() * len(keys)
    assert ((counts - expected) ** 2 / expected).sum() < 20.5  # 5 degrees of freedom: one in a thousand


def test_noise_of_neighbours_is_independent() -> None:
    keys = noise_keys(1, "train", np.zeros(40, np.int64), np.arange(40), 32)
    noise = gumbel_noise(keys.ravel(), id_words(100)).reshape(40, 32, 100)
    for one, other in ((noise[1:], noise[:-1]), (noise[:, 1:], noise[:, :-1]), (noise[..., 1:], noise[..., :-1])):
        assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 0.015


def test_the_keys_of_a_row_depend_on_its_sample_and_epoch_only(tmp_path: Path) -> None:
    special = special_ids(load_tokenizer(write_suite_tokenizer(tmp_path / "tokenizer", "bert")))
    source = open_split_data(write_suite_dataset(tmp_path / "dataset", "bert"), "train")
    config = SamplerConfig(batch=8, length=32, packing="line", seed=5, noise_keys=True)
    sampler = Sampler(source, config, special, Masking(MaskingConfig(), special))
    whole, shares = sampler.batch(3), [sampler.batch(3, rank, 4) for rank in range(4)]
    assert whole.noise_keys is not None
    joined = np.concatenate([share.noise_keys for share in shares if share.noise_keys is not None])
    assert np.array_equal(whole.noise_keys, joined)
    seen: dict[tuple[int, int], bytes] = {}
    for step in range(2 * sampler.samples // 8):
        batch = sampler.batch(step)
        assert batch.noise_keys is not None
        for epoch, index, row in zip(batch.epochs.tolist(), batch.indices.tolist(), batch.noise_keys, strict=True):
            seen[epoch, index] = row.tobytes()
    assert len(set(seen.values())) == len(seen), "each epoch has other noise"
    assert Sampler(source, config, special, Masking(MaskingConfig(), special)).batch(3).noise_keys is not None
    plain = Sampler(source, SamplerConfig(batch=8, length=32, packing="line"), special, None)
    assert plain.batch(0).noise_keys is None
