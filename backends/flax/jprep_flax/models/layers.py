"""Layers that all models are built from. Weights have the names and shapes of transformers, stacked over all layers."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array, lax

from jprep_flax.models.sharding import replicate_vectors

AxisNames = tuple[str | None, ...]

GELU_SLOPE, GELU_CUBE = math.sqrt(2 / math.pi), 0.044715


class LayerFactory:
    """Create parameters: a single array each, or one array stacked over all layers.

    Args:
        dtype: type of the arithmetic; weights are fp32.
        layers: number of layers that share an array; 0 for weights outside the layers.
    """

    def __init__(self, dtype: Any, layers: int = 0) -> None:
        self.dtype, self._layers = dtype, layers

    def weight(self, *shape: int, axes: AxisNames) -> nnx.Param[Array]:
        """Return a parameter of zeros, to be loaded later, with the names of its axes."""
        if self._layers:
            shape, axes = (self._layers, *shape), ("layers", *axes)
        return nnx.Param(jnp.zeros(shape, jnp.float32), out_sharding=axes, eager_sharding=False)

    def stacked(self, layers: int) -> LayerFactory:
        """Return a factory whose parameters are stacked over `layers` layers."""
        return LayerFactory(self.dtype, layers)


class ModuleGroup(nnx.Module):
    """A module that only holds submodules, so that the path of a weight is its name in transformers."""

    def __init__(self, **modules: Any) -> None:
        for name, module in modules.items():
            setattr(self, name, module)


def set_submodule(model: nnx.Module, name: str, module: Any) -> None:
    """Attach a module under a dotted name, creating the groups on the way."""
    *groups, last = name.split(".")
    for group in groups:
        if not hasattr(model, group):
            setattr(model, group, ModuleGroup())
        model = getattr(model, group)
    setattr(model, last, module)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def matmul_weight(x: Array, weight: Array, inputs: int = 0) -> Array:
    """Multiply x by a weight, cast to the type of x; the weight's other axes follow those of x.

    The gradient of the weight is written so that the narrower factor is transposed: on CPUs a transpose is a copy.

    Args:
        x: (…, inputs).
        weight: the weight.
        inputs: the weight's axis of the inputs.
    """
    return lax.dot_general(x, weight.astype(x.dtype), (((x.ndim - 1,), (inputs,)), ((), ())))


def _matmul_forward(x: Array, weight: Array, inputs: int) -> tuple[Array, tuple[Array, Array]]:
    return matmul_weight(x, weight, inputs), (x, weight)


def _matmul_backward(inputs: int, residuals: tuple[Array, Array], gradient: Array) -> tuple[Array, Array]:
    x, weight = residuals
    outputs = tuple(axis for axis in range(weight.ndim) if axis != inputs)
    output_axes = tuple(range(x.ndim - 1, gradient.ndim))
    x_gradient = lax.dot_general(gradient, weight.astype(x.dtype), ((output_axes, outputs), ((), ())))
    tokens, width = tuple(range(x.ndim - 1)), x.shape[-1]
    x_first = (width, inputs) <= (weight.size // width, 0)  # x is narrower, or equal and first in the weight
    left, right = (x, gradient) if x_first else (gradient, x)
    weight_gradient = lax.dot_general(left, right, ((tokens, tokens), ((), ())))
    weight_gradient = lax.optimization_barrier(weight_gradient)  # or XLA transposes the wide factor instead
    return x_gradient, jnp.moveaxis(weight_gradient, 0 if x_first else -1, inputs).astype(weight.dtype)


matmul_weight.defvjp(_matmul_forward, _matmul_backward)


class Linear(nnx.Module):
    """Compute x Wᵀ + b.

    Args:
        make: creates the weights.
        inputs, outputs: width and axis name of each.
        bias: whether there is a bias.
    """

    def __init__(
        self, make: LayerFactory, inputs: tuple[int, str | None], outputs: tuple[int, str | None], bias: bool = True
    ):
        self.weight = make.weight(outputs[0], inputs[0], axes=(outputs[1], inputs[1]))
        self.bias = make.weight(outputs[0], axes=(outputs[1],)) if bias else None
        self.dtype = make.dtype

    def __call__(self, x: Array) -> Array:
        """Map (…, inputs) to (…, outputs)."""
        y = matmul_weight(x, self.weight[...], 1)
        return y if self.bias is None else y + self.bias[...].astype(self.dtype)


class LayerNorm(nnx.Module):
    """Normalize to mean 0 and variance 1 in fp32, then scale and shift.

    Args:
        make: creates the weights.
        width: size of the last axis.
        epsilon: added to the variance.
        bias: whether numbers are shifted.
    """

    def __init__(self, make: LayerFactory, width: int, epsilon: float, bias: bool = True) -> None:
        self.weight = make.weight(width, axes=("embed",))
        self.bias = make.weight(width, axes=("embed",)) if bias else None
        self.epsilon = epsilon

    def __call__(self, x: Array) -> Array:
        """Normalize over the last axis; the shape and type stay."""
        wide = x.astype(jnp.float32)
        centred = wide - wide.mean(-1, keepdims=True)
        scale = lax.rsqrt(jnp.square(centred).mean(-1, keepdims=True) + self.epsilon)
        y = centred * scale * self.weight[...]
        return (y if self.bias is None else y + self.bias[...]).astype(x.dtype)


class RMSNorm(nnx.Module):
    """Normalize to mean square 1 in fp32, then scale.

    Args:
        make: creates the weight.
        width: size of the last axis.
        epsilon: added to the mean square.
        axis: name of that axis.
    """

    def __init__(self, make: LayerFactory, width: int, epsilon: float, axis: str | None = "embed") -> None:
        self.weight = make.weight(width, axes=(axis,))
        self.epsilon = epsilon

    def __call__(self, x: Array) -> Array:
        """Normalize over the last axis; the shape and type stay."""
        wide = x.astype(jnp.float32)
        wide = wide * lax.rsqrt(jnp.square(wide).mean(-1, keepdims=True) + self.epsilon)
        return self.weight[...].astype(x.dtype) * wide.astype(x.dtype)


class EmbeddingTable(nnx.Module):
    """Look up a vector for each id.

    Args:
        make: creates the weight.
        rows: number of ids.
        width: width of a vector.
        axes: names of both axes.
        padding_id: an id whose vector gets no gradient from lookups.
    """

    def __init__(
        self,
        make: LayerFactory,
        rows: int,
        width: int,
        axes: AxisNames = (None, "embed"),
        padding_id: int | None = None,
    ) -> None:
        self.weight = make.weight(rows, width, axes=axes)
        self.padding_id, self.dtype, self.sharded = padding_id, make.dtype, axes[0] is not None

    def __call__(self, ids: Array) -> Array:
        """Map ids of any shape to vectors, (…, width)."""
        table = replicate_vectors(self.weight[...], self.sharded)
        vectors = jnp.take(table, ids, axis=0, mode="clip").astype(self.dtype)
        if self.padding_id is None:
            return vectors
        return jnp.where((ids == self.padding_id)[..., None], lax.stop_gradient(vectors), vectors)


@jax.checkpoint
def gelu_new(x: Array) -> Array:
    """Return GELU by tanh; only x is kept for the backward pass."""
    return 0.5 * x * (1 + jnp.tanh(GELU_SLOPE * (x + GELU_CUBE * x * x * x)))


def gelu(x: Array) -> Array:
    """Return GELU by the error function."""
    return 0.5 * x * (1 + lax.erf(x * math.sqrt(0.5)))


ACTIVATIONS: dict[str, Callable[[Array], Array]] = {
    "gelu": gelu, "gelu_new": gelu_new, "relu": jax.nn.relu, "silu": jax.nn.silu,
}  # fmt: skip
