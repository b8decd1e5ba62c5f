"""AdamW with ε added after the bias correction, as `docs/training.md` defines it."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from jprep.train.optimization.optimizer import OptimizerConfig

AdamWStep = Callable[[Array, Array, Array, Array, Array, bool], tuple[Array, Array, Array]]
"""Maps a weight, m, v, the gradient, the rate and whether the weight decays to the first three after the step."""


def adamw_step(section: OptimizerConfig, factor: Array | float, count: Array) -> AdamWStep:
    """Return AdamW of one array.

    Args:
        section: AdamW's constants.
        factor: factor of the gradients.
        count: number of this update, from 1.
    """
    correction1, correction2 = (_bias_correction(beta, count) for beta in (section.beta1, section.beta2))

    def step(
        weight: Array, m: Array, v: Array, gradient: Array, rate: Array, decays: bool
    ) -> tuple[Array, Array, Array]:
        gradient = gradient * factor
        m = section.beta1 * m + (1 - section.beta1) * gradient
        v = section.beta2 * v + (1 - section.beta2) * jnp.square(gradient)
        update = m / correction1 / (jnp.sqrt(v / correction2) + section.eps)
        return weight - rate * (update + decay_of(weight, section, decays)), m, v

    return step


def decay_of(weight: Array, section: OptimizerConfig, decays: bool) -> Array | float:
    """Return the weight decay of a step, without the learning rate."""
    return section.weight_decay * weight if decays else 0.0


def _bias_correction(beta: float, count: Array) -> Array:
    """Return 1 − βᵗ, exact for β near 1."""
    return -jnp.expm1(count.astype(jnp.float32) * (math.log(beta) if beta else -math.inf))
