"""From gradients to new weights: AdamW, clipping and the loss's scale as `docs/training.md` has them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.job.config import OptimizerConfig

INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL = 2.0**16, 2000

UpdateKind = Literal["decays", "stays large", "still"]
"""What becomes of a weight: it is trained and decays; it is trained; it is not trained."""


AdamWStep = Callable[[Array, Array, Array, Array, UpdateKind], tuple[Array, Array, Array]]
"""Takes a weight, m, v, the gradient and what becomes of the weight; gives the first three after the step."""


class StateArrays(NamedTuple):
    """All that an update changes.

    Attributes:
        weights: the model's, fp32.
        m, v: AdamW's averages, as the weights.
        updates: how many the averages have seen, int32.
        scale: of the loss, fp32; 1 but for fp16.
        good: steps since that scale was changed, int32.
    """

    weights: nnx.State
    m: nnx.State
    v: nnx.State
    updates: Array
    scale: Array
    good: Array


def apply_update(
    state: StateArrays,
    gradient: nnx.State,
    rate: Array,
    section: OptimizerConfig,
    kinds: list[UpdateKind],
    *,
    moving: bool,
) -> tuple[StateArrays, Array, Array]:
    """Take a step.

    Args:
        state: before it.
        gradient: of the global batch's loss, times the loss's scale; as the weights.
        rate: the learning rate.
        section: AdamW's constants.
        kinds: of the weights, in the order of their leaves.
        moving: whether the loss has a scale that moves: fp16's.

    Returns:
        The state after it; the gradient's norm before clipping, without the scale; whether the step was taken: with a
        scale that was too large none is.
    """
    tree = jax.tree.structure(state.weights)
    gradients = [g / state.scale if moving else g for g in jax.tree.leaves(gradient)]
    norm = global_norm([g for g, kind in zip(gradients, kinds, strict=True) if kind != "still"])
    count = state.updates + 1
    step = _stepper(section, clip_factor(norm, section.clip), rate, count)
    leaves = (jax.tree.leaves(one) for one in state[:3])
    moved = [step(*each) for each in zip(*leaves, gradients, kinds, strict=True)]
    weights, m, v = (jax.tree.unflatten(tree, leaves) for leaves in zip(*moved, strict=True))
    after = state._replace(weights=weights, m=m, v=v, updates=count)
    if not moving:
        return after, norm, jnp.array(True)
    taken = jnp.isfinite(norm) | (state.scale <= 1)
    kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), after, state)
    return next_loss_scale(kept, taken), norm, taken


def global_norm(gradients: list[Array]) -> Array:
    """√Σ g² over all trained tensors."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))


def clip_factor(norm: Array, clip: float) -> Array | float:
    """What gradients are multiplied by: c / N, nothing added to N."""
    return jnp.where(norm > clip, clip / norm, 1.0) if clip else 1.0


def _stepper(section: OptimizerConfig, factor: Array | float, rate: Array, count: Array) -> AdamWStep:
    """AdamW of one array, ε after the correction.

    Args:
        section: its constants.
        factor: what gradients are multiplied by.
        rate: the learning rate.
        count: the number of this update, from 1.
    """
    first, second = (_seen(beta, count) for beta in (section.beta1, section.beta2))

    def step(weight: Array, m: Array, v: Array, gradient: Array, kind: UpdateKind) -> tuple[Array, Array, Array]:
        if kind == "still":
            return weight, m, v
        gradient = gradient * factor
        m = section.beta1 * m + (1 - section.beta1) * gradient
        v = section.beta2 * v + (1 - section.beta2) * jnp.square(gradient)
        move = m / first / (jnp.sqrt(v / second) + section.eps)
        decay = section.weight_decay * weight if kind == "decays" else 0.0
        return weight - rate * (move + decay), m, v

    return step


def next_loss_scale(state: StateArrays, taken: Array) -> StateArrays:
    """Halve the loss's scale after a step that was not taken, double it after so many that were."""
    good = jnp.where(taken, state.good + 1, 0)
    grows = good >= LOSS_SCALE_GROWTH_INTERVAL
    scale = jnp.where(taken, jnp.where(grows, state.scale * 2, state.scale), state.scale / 2)
    return state._replace(scale=scale, good=jnp.where(grows, 0, good))


def _seen(beta: float, count: Array) -> Array:
    """1 − βᵗ, exact where β is near 1."""
    return -jnp.expm1(count.astype(jnp.float32) * (math.log(beta) if beta else -math.inf))
