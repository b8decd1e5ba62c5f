"""The gradient of the model is that of finite differences."""

from __future__ import annotations

import numpy as np
import pytest

from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep_new_backend.models.language_model import LanguageModel
from jprep_new_backend.models.loss import token_loss

CONFIG = {"n_layer": 2}
WIDTH, INNER, VOCABULARY, LENGTH = 4, 6, 11, 5


@pytest.fixture
def weights() -> dict[str, np.ndarray]:
    """Random weights in float64."""
    draw = np.random.default_rng(1)
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (VOCABULARY, WIDTH), "wpe.weight": (LENGTH + 1, WIDTH)}
    for layer in range(CONFIG["n_layer"]):
        shapes |= {f"h.{layer}.mlp.c_fc.weight": (WIDTH, INNER), f"h.{layer}.mlp.c_fc.bias": (INNER,)}
        shapes |= {f"h.{layer}.mlp.c_proj.weight": (INNER, WIDTH), f"h.{layer}.mlp.c_proj.bias": (WIDTH,)}
    return {f"transformer.{name}": draw.normal(size=shape) for name, shape in shapes.items()}


def test_the_gradient_equals_finite_differences(weights: dict[str, np.ndarray]) -> None:
    """For every number of every weight."""
    ids = np.random.default_rng(2).integers(0, VOCABULARY, (2, LENGTH))
    labels = np.roll(ids, -1, axis=1)
    labels[:, -1] = IGNORE_INDEX
    model, small = LanguageModel(CONFIG, weights), 1e-6

    def loss() -> float:
        return token_loss(model.forward(ids)[0], labels)[0]

    logits, activations, hidden = model.forward(ids)
    gradients = model.backward(ids, activations, hidden, token_loss(logits, labels)[1])
    assert gradients.keys() == weights.keys()
    for name, weight in weights.items():
        for index in np.ndindex(weight.shape):
            original = weight[index]
            weight[index] = original + small
            above = loss()
            weight[index] = original - small
            below = loss()
            weight[index] = original
            assert gradients[name][index] == pytest.approx((above - below) / (2 * small), abs=1e-6), (name, index)
