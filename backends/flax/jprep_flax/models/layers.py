"""What models are made of. Weights have transformers' names and shapes, those of all layers in one array."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from jprep_flax.worker.sharding import replicate_vectors

AxisNames = tuple[str | None, ...]

EMBEDDING_DROPOUT, HEAD_DROPOUT = 1 << 20, 1 << 21
"""Places that drop outside of layers, which count from 0."""

GELU_SLOPE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


class LayerFactory:
    """Makes weights: one of each, or one for each layer, stacked.

    Args:
        dtype: the arithmetic's; weights are fp32.
        layers: how many layers share an array; 0 for weights outside of layers.
    """

    def __init__(self, dtype: Any, layers: int = 0) -> None:
        self.dtype, self._layers = dtype, layers

    def weight(self, *shape: int, axes: AxisNames) -> nnx.Param[Array]:
        """A weight that awaits its numbers, with the names of its axes."""
        if self._layers:
            shape, axes = (self._layers, *shape), ("layers", *axes)
        return nnx.Param(jnp.zeros(shape, jnp.float32), out_sharding=axes, eager_sharding=False)

    def stacked(self, layers: int) -> LayerFactory:
        """Makes weights of so many layers."""
        return LayerFactory(self.dtype, layers)


class ModuleGroup(nnx.Module):
    """A module that only holds others, so that a weight's path is its name."""

    def __init__(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)


def set_submodule(model: nnx.Module, name: str, part: Any) -> None:
    """Give a model a part under a dotted name."""
    *holders, last = name.split(".")
    for holder in holders:
        if not hasattr(model, holder):
            setattr(model, holder, ModuleGroup())
        model = getattr(model, holder)
    setattr(model, last, part)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def matmul_weight(x: Array, weight: Array, inputs: int = 0) -> Array:
    """x times a weight, which of whose axes is that of the inputs is said; cast to x's type. Its others follow x's.

    The weight's gradient is written so that the narrower of its factors is turned, which on CPUs costs a copy.
    """
    return lax.dot_general(x, weight.astype(x.dtype), (((x.ndim - 1,), (inputs,)), ((), ())))


def _product(x: Array, weight: Array, inputs: int) -> tuple[Array, tuple[Array, Array]]:
    return matmul_weight(x, weight, inputs), (x, weight)


def _product_back(inputs: int, kept: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = kept
    outputs = tuple(axis for axis in range(weight.ndim) if axis != inputs)
    made = tuple(range(x.ndim - 1, gradient.ndim))
    of_x = lax.dot_general(gradient, weight.astype(x.dtype), ((made, outputs), ((), ())))
    tokens, width = tuple(range(x.ndim - 1)), x.shape[-1]
    first = (width, inputs) <= (weight.size // width, 0)  # x is the narrower one, or as wide and first in the weight
    left, right = (x, gradient) if first else (gradient, x)
    of_weight = lax.dot_general(left, right, ((tokens, tokens), ((), ())))
    of_weight = lax.optimization_barrier(of_weight)  # else XLA turns the wide one, to save turning the result
    return of_x, jnp.moveaxis(of_weight, 0 if first else -1, inputs).astype(weight.dtype)


matmul_weight.defvjp(_product, _product_back)


class Linear(nnx.Module):
    """x Wᵀ + b.

    Args:
        make: makes its weights.
        inputs, outputs: how many numbers, each with the name of its axis.
        bias: whether there is one.
    """

    def __init__(
        self, make: LayerFactory, inputs: tuple[int, str | None], outputs: tuple[int, str | None], bias: bool = True
    ):
        self.weight = make.weight(outputs[0], inputs[0], axes=(outputs[1], inputs[1]))
        self.bias = make.weight(outputs[0], axes=(outputs[1],)) if bias else None
        self.dtype = make.dtype

    def __call__(self, x: Array) -> Array:
        """Of (…, inputs), (…, outputs)."""
        y = matmul_weight(x, self.weight[...], 1)
        return y if self.bias is None else y + self.bias[...].astype(self.dtype)


class LayerNorm(nnx.Module):
    """Mean 0 and variance 1, in fp32; then scaled and shifted."""

    def __init__(self, make: LayerFactory, width: int, epsilon: float) -> None:
        self.weight, self.bias = (make.weight(width, axes=("embed",)) for _ in range(2))
        self.epsilon = epsilon

    def __call__(self, x: Array) -> Array:
        """Over the last axis; as wide as x is."""
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        scale = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + self.epsilon)
        return (centred * scale * self.weight[...] + self.bias[...]).astype(x.dtype)


class RMSNorm(nnx.Module):
    """Mean square 1, in fp32; then scaled."""

    def __init__(self, make: LayerFactory, width: int, epsilon: float) -> None:
        self.weight = make.weight(width, axes=("embed",))
        self.epsilon = epsilon

    def __call__(self, x: Array) -> Array:
        """Over the last axis; as wide as x is."""
        wide = x.astype(jnp.float32)
        wide = wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + self.epsilon)
        return self.weight[...].astype(x.dtype) * wide.astype(x.dtype)


class EmbeddingTable(nnx.Module):
    """A vector for each id.

    Args:
        make: makes its weights.
        rows: how many ids.
        width: of a vector.
        axes: names of both.
        still: an id whose vector does not learn from being looked up: padding.
    """

    def __init__(
        self, make: LayerFactory, rows: int, width: int, axes: AxisNames = (None, "embed"), still: int | None = None
    ) -> None:
        self.weight = make.weight(rows, width, axes=axes)
        self.still, self.dtype, self.divided = still, make.dtype, axes[0] is not None

    def __call__(self, ids: Array) -> Array:
        """Of ids of any shape, one more axis: a vector."""
        table = replicate_vectors(self.weight[...], self.divided)
        found = jnp.take(table, ids, axis=0, mode="clip").astype(self.dtype)
        if self.still is None:
            return found
        return jnp.where((ids == self.still)[..., None], lax.stop_gradient(found), found)


@jax.checkpoint
def gelu_new(x: Array) -> Array:
    """GELU by tanh; only x is kept for the way back."""
    return 0.5 * x * (1 + jnp.tanh(GELU_SLOPE * (x + GELU_CUBE * x * x * x)))


def gelu(x: Array) -> Array:
    """GELU by the error function."""
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu, "gelu_new": gelu_new, "relu": jax.nn.relu, "silu": jax.nn.silu,
}  # fmt: skip


def dropout(x: Array, share: float, key: Array | None, place: int) -> Array:
    """Set a share of numbers to 0 and scale the others up.

    Args:
        x: the numbers.
        share: how many of them, from 0 to below 1.
        key: of the random bits; without one nothing is dropped.
        place: which of the places that use this key.
    """
    if key is None or not share:
        return x
    kept = jax.random.bernoulli(jax.random.fold_in(key, place), 1 - share, x.shape)
    return jnp.where(kept, x / (1 - share), 0).astype(x.dtype)
