"""Muon for the matrices of layers, as `docs/training.md` defines it.

It is not optax's, whose momentum is an average that is corrected for bias: its directions differ in the first steps,
and its state is not that of checkpoints.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import jax.numpy as jnp
from jax import Array

from jprep.io.safetensors_file import Shape
from jprep.train.optimization.muon import NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_flax.models.sharding import map_layers
from jprep_flax.worker.update_rules.adamw import decay_of

MuonStep = Callable[[Array, Array, Array, Array, bool, Shape], tuple[Array, Array]]
"""Maps a weight, m, the gradient, the rate, whether the weight decays and the shape of each matrix to the first two."""

_TINY = 1e-30  # a norm below it is that of zeros


def muon_step(section: OptimizerConfig, factor: Array | float) -> MuonStep:
    """Return Muon of one array: matrices in their shape in transformers, or in another one, stacked over layers.

    Args:
        section: Muon's constants.
        factor: factor of the gradients.
    """

    def step(weight: Array, m: Array, gradient: Array, rate: Array, decays: bool, shape: Shape) -> tuple[Array, Array]:
        gradient = gradient * factor
        m = section.momentum * m + gradient
        matrices = (gradient + section.momentum * m).reshape(-1, *shape)
        direction = map_layers(orthogonal, matrices).reshape(weight.shape)
        return weight - rate * (direction + decay_of(weight, section, decays)), m

    return step


def orthogonal(matrix: Array) -> Array:
    """Return a matrix with about the same singular vectors and singular values near 1, times 0.2 · √(longer side).

    Products are in fp32 whatever the precision of the job.

    Args:
        matrix: (…, rows, columns).
    """
    rows, columns = matrix.shape[-2:]
    x = matrix.mT if rows > columns else matrix
    x = x / jnp.maximum(jnp.linalg.norm(x, axis=(-2, -1), keepdims=True), _TINY)
    first, second, third = NEWTON_SCHULZ
    multiply = partial(jnp.matmul, precision="highest")
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = multiply(x, x.mT)
        x = first * x + multiply(second * square + third * multiply(square, square), x)
    x = x * (0.2 * max(rows, columns) ** 0.5)
    return x.mT if rows > columns else x
