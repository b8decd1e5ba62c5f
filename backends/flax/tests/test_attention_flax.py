"""Attention: its outputs and its own gradient are those of the formula, with masks, grouped heads and dropout."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jprep_flax.models.attention import causal_mask, dot_product_attention, padding_mask
from jprep_flax.models.dropout import dropout

ROWS, LENGTH, HEADS, SIZE = 3, 12, 4, 8
MASKS = {"causal": causal_mask(LENGTH), "padding": padding_mask(jnp.array([1, 7, LENGTH]), LENGTH)}


def formula(rate: float, query: Any, keys: Any, values: Any, mask: Any, key: Any) -> Any:
    """Return softmax(Q Kᵀ / √size) V, as its definition says; JAX derives the gradient."""
    query = query.reshape(ROWS, LENGTH, keys.shape[2], -1, SIZE)
    scores = jnp.einsum("rqhgs,rkhs->rhgqk", query, keys) / SIZE**0.5
    probabilities = jax.nn.softmax(jnp.where(mask[:, None, None], scores, -jnp.inf))
    probabilities = dropout(probabilities, rate, key, 0)
    return jnp.einsum("rhgqk,rkhs->rqhgs", probabilities, values).reshape(ROWS, LENGTH, -1)


def value_and_gradients(attend: Any, given: tuple[Any, ...], factors: Any) -> list[Any]:
    """Return a weighted sum of the outputs, and its gradients with respect to query, keys and values."""
    found = jax.value_and_grad(lambda *given: jnp.sum(attend(*given) * factors), (0, 1, 2))(*given)
    return jax.tree.leaves(found)


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("groups", [HEADS, 2, 1])
@pytest.mark.parametrize("mask", MASKS)
def test_outputs_and_gradients_are_those_of_the_formula(mask: str, groups: int, seed: int | None) -> None:
    random, key = np.random.default_rng(0), None if seed is None else jax.random.key(seed)
    query, factors = random.normal(size=(2, ROWS, LENGTH, HEADS, SIZE)).astype(np.float32)
    keys, values = random.normal(size=(2, ROWS, LENGTH, groups, SIZE)).astype(np.float32)
    given, factors = (query, keys, values), factors.reshape(ROWS, LENGTH, -1)
    found = value_and_gradients(lambda *given: dot_product_attention(*given, MASKS[mask], 0.3, key), given, factors)
    wanted = value_and_gradients(lambda *given: formula(0.3, *given, MASKS[mask], key), given, factors)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=2e-6)


def test_few_tokens_attend_to_many_positions() -> None:
    query, keys = (jax.random.normal(jax.random.key(0), (ROWS, length, HEADS, SIZE)) for length in (2, LENGTH))
    mask = jnp.arange(LENGTH) <= jnp.array([[LENGTH - 2], [LENGTH - 1]])
    found = dot_product_attention(query, keys, keys, mask[None], 0.0, None)
    wanted = dot_product_attention(
        jnp.pad(query, ((0, 0), (LENGTH - 2, 0), (0, 0), (0, 0))), keys, keys, MASKS["causal"], 0.0, None
    )
    np.testing.assert_allclose(found, wanted[:, -2:], rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.bfloat16])
def test_half_precision_is_close_to_single_precision(dtype: Any) -> None:
    given = jax.random.normal(jax.random.key(0), (3, 2, 8, 2, 4))

    def found(dtype: Any) -> list[Any]:
        halves = tuple(each.astype(dtype) for each in given)
        compiled = jax.jit(lambda *halves: dot_product_attention(*halves, causal_mask(8), 0.0, None))
        return [compiled(*halves), *value_and_gradients(compiled, halves, 1)[1:]]

    for half, single in zip(found(dtype), found(jnp.float32), strict=True):
        np.testing.assert_allclose(half.astype(jnp.float32), single, atol=3e-2)
