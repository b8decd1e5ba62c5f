"""Layer-wise learning rates, and weights of classes."""

from __future__ import annotations

import numpy as np
import pytest

from jprep.errors import ConfigError
from jprep.train.job.config import ModelConfig
from jprep.train.job.labelled_data import class_weights
from jprep.train.models import PRESETS, TokenizerInfo, model_config, parameters
from jprep.train.optimization.layer_decay import rate_factors

LABELS = ("no", "yes")


@pytest.mark.parametrize("preset", sorted(name for name in PRESETS if name.endswith("-tiny")))
def test_rates_fall_from_the_head_to_the_embeddings(preset: str) -> None:
    about = TokenizerInfo(300, 32, 0, 2, 1, LABELS)
    task = "clm" if PRESETS[preset]["model_type"] == "qwen3_moe" else "classify"
    config = model_config(ModelConfig(preset=preset), task, about)
    factors = rate_factors(parameters(config, task), 0.5)
    layers = config.get("n_layer") or config["num_hidden_layers"]
    assert set(factors.values()) == {0.5**power for power in range(layers + 2)}
    for name, factor in factors.items():
        if "classifier" in name or name.startswith("score"):
            assert factor == 1.0
        if "word_embeddings" in name or "wte" in name or "tok_embeddings" in name or "embed_tokens" in name:
            assert factor == 0.5 ** (layers + 1)
    assert set(rate_factors(factors, 1.0).values()) == {1.0}


def test_deberta_s_parts_outside_of_layers_have_the_rate_of_where_they_stand() -> None:
    section = ModelConfig(config={"model_type": "deberta-v2", "num_hidden_layers": 3, "conv_kernel_size": 3})
    config = model_config(section, "classify", TokenizerInfo(300, 32, 0, 2, 1, LABELS))
    factors = rate_factors(parameters(config, "classify"), 0.5)
    relative = {name: factor for name, factor in factors.items() if ".encoder." in name and ".layer." not in name}
    assert {name.removeprefix("deberta.encoder."): factor for name, factor in relative.items()} == {
        "rel_embeddings.weight": 0.5**4, "LayerNorm.weight": 0.5**4, "LayerNorm.bias": 0.5**4,
        "conv.conv.weight": 0.5**3, "conv.conv.bias": 0.5**3,
        "conv.LayerNorm.weight": 0.5**3, "conv.LayerNorm.bias": 0.5**3,
    }  # fmt: skip


def test_balanced_classes_have_the_same_weight_in_sum() -> None:
    labels = np.array([0, 0, 0, 1])
    weights = class_weights("balanced", LABELS, labels)
    assert weights == (4 / 6, 2.0)
    assert class_weights({"yes": 3.0}, LABELS, labels) == (1.0, 3.0)
    assert class_weights("", LABELS, labels) == ()
    with pytest.raises(ConfigError, match="there is no class 'maybe'"):
        class_weights({"maybe": 3.0}, LABELS, labels)
