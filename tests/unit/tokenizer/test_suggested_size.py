"""Suggested vocabulary sizes: small texts get what can be learnt from them, large ones the default."""

from __future__ import annotations

from typing import get_args

import pytest

from jprep.tokenizer.config import ModelType
from jprep.tokenizer.suggested_size import count_alphabet, suggest_vocab_size

LEARNABLE = {
    "unigram": {(18_601, 813): 1896, (79_659, 1265): 3604, (122_139, 1471): 4671,
                (1_110_859, 2003): 14_851, (1_269_111, 2702): 27_269, (3_486_120, 778): 15_842},
    "bpe": {(122_139, 1471): 10_395, (222_465, 2369): 30_356, (1_110_859, 2003): 35_062, (3_486_120, 778): 41_280},
    "wordpiece": {(122_139, 1471): 10_108, (222_465, 2369): 30_048, (1_110_859, 2003): 34_698,
                  (3_486_120, 778): 40_983},
}  # fmt: skip
"""Model → characters and alphabet of real corpora (reviews, Wikipedia, chats, program documentation) → most ids."""


@pytest.mark.parametrize("model", LEARNABLE)
def test_sizes_can_be_learnt_with_a_margin(model: ModelType) -> None:
    for (characters, alphabet), most in LEARNABLE[model].items():
        size = suggest_vocab_size(characters, alphabet, model)
        assert alphabet + 264 < size < 0.85 * most, (characters, size)


@pytest.mark.parametrize("model", get_args(ModelType))
def test_large_texts_have_the_usual_size(model: ModelType) -> None:
    assert suggest_vocab_size(50_000_000, 0, model) == 32_000
    assert suggest_vocab_size(0, 0, model) < 300


def test_rare_characters_are_not_counted() -> None:
    assert count_alphabet("あい" * 3_000 + "う え\n") == 2
    assert count_alphabet("") == 0
