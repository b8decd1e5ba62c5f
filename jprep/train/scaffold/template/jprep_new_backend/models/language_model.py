"""A small language model with the weights of a GPT-2, and its gradient by hand.

It uses the embeddings of tokens and positions and the feed-forward networks of all layers, but neither attention nor
norms: each token is predicted from the token before it and from its position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

TOKENS, POSITIONS = "transformer.wte.weight", "transformer.wpe.weight"


class LayerActivations(NamedTuple):
    """What the backward pass of a layer needs.

    Attributes:
        inputs: (rows, length, width).
        inner: output of the activation, (rows, length, inner width).
    """

    inputs: Array
    inner: Array


class LanguageModel:
    """The model.

    Args:
        config: the config of transformers, of model_type `gpt2`.
        weights: all weights by transformers' names; they may change between calls.
    """

    def __init__(self, config: Mapping[str, Any], weights: Mapping[str, Array]) -> None:
        self._layers, self._weights = int(config["n_layer"]), weights

    def forward(self, ids: Array) -> tuple[Array, list[LayerActivations], Array]:
        """Return the logits of the next token, (rows, length, ids), and what `backward` needs.

        Args:
            ids: (rows, length).
        """
        x = self._weights[TOKENS][ids] + self._weights[POSITIONS][: ids.shape[1]]
        activations = []
        for number in range(self._layers):
            w1, b1, w2, b2 = self._layer_weights(number)
            inner = np.maximum(x @ w1 + b1, 0)
            activations.append(LayerActivations(x, inner))
            x = x + inner @ w2 + b2
        return x @ self._weights[TOKENS].T, activations, x

    def backward(
        self, ids: Array, activations: list[LayerActivations], hidden: Array, gradient: Array
    ) -> dict[str, Array]:
        """Return the gradient of each weight that the model uses, by name.

        Args:
            ids: (rows, length), as given to `forward`.
            activations: from `forward`.
            hidden: from `forward`, (rows, length, width).
            gradient: gradient of the logits, (rows, length, ids).
        """
        gradients = {TOKENS: _outer(gradient, hidden)}
        dx = gradient @ self._weights[TOKENS]
        for number in reversed(range(self._layers)):
            w1, _, w2, _ = self._layer_weights(number)
            inputs, inner = activations[number]
            d_inner = (dx @ w2.T) * (inner > 0)
            parts = (_outer(inputs, d_inner), d_inner.sum((0, 1)), _outer(inner, dx), dx.sum((0, 1)))
            gradients |= dict(zip(_layer_names(number), parts, strict=True))
            dx = dx + d_inner @ w1.T
        np.add.at(gradients[TOKENS], ids, dx)
        gradients[POSITIONS] = np.zeros_like(self._weights[POSITIONS])
        gradients[POSITIONS][: ids.shape[1]] = dx.sum(0)
        return gradients

    def _layer_weights(self, number: int) -> list[Array]:
        return [self._weights[name] for name in _layer_names(number)]


def _layer_names(number: int) -> list[str]:
    stem = f"transformer.h.{number}.mlp"
    return [f"{stem}.{part}.{kind}" for part in ("c_fc", "c_proj") for kind in ("weight", "bias")]


def _outer(left: Array, right: Array) -> Array:
    """Return leftᵀ right, summed over rows and positions."""
    product: Array = left.reshape(-1, left.shape[-1]).T @ right.reshape(-1, right.shape[-1])
    return product
