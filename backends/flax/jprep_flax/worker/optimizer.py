"""AdamW, gradient clipping and the loss scale of fp16, as `docs/training.md` defines them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.job.config import OptimizerConfig
from jprep.train.job.schedule import LOSS_SCALE_GROWTH_INTERVAL

UpdateKind = Literal["decayed", "not decayed", "frozen"]
"""How a weight is updated: with weight decay, without it, or not at all."""


AdamWStep = Callable[[Array, Array, Array, Array, UpdateKind], tuple[Array, Array, Array]]
"""Maps a weight, m, v, the gradient and the kind of update to the first three after the step."""


class StateArrays(NamedTuple):
    """All arrays that a step changes.

    Attributes:
        weights: weights of the model, fp32.
        m, v: AdamW's averages, with the structure of the weights.
        updates: number of updates that the averages have seen, int32.
        scale: loss scale, fp32; 1 except in fp16.
        good: steps since the scale was changed, int32.
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
    dynamic_scale: bool,
) -> tuple[StateArrays, Array, Array]:
    """Apply a gradient.

    Args:
        state: state before the step.
        gradient: gradient of the global batch's loss, times the loss scale, with the structure of the weights.
        rate: the learning rate.
        section: AdamW's constants.
        kinds: kind of update of each weight, in the order of the leaves.
        dynamic_scale: whether the loss scale changes, as in fp16.

    Returns:
        The state after the step; the norm of the unscaled gradient before clipping; whether the step was taken. It is
        skipped if the loss scale was too large.
    """
    tree = jax.tree.structure(state.weights)
    gradients = [g / state.scale if dynamic_scale else g for g in jax.tree.leaves(gradient)]
    norm = global_norm([g for g, kind in zip(gradients, kinds, strict=True) if kind != "frozen"])
    count = state.updates + 1
    step = _adamw_step(section, clip_factor(norm, section.clip), rate, count)
    leaves = (jax.tree.leaves(part) for part in state[:3])
    updated = [step(*arrays) for arrays in zip(*leaves, gradients, kinds, strict=True)]
    weights, m, v = (jax.tree.unflatten(tree, leaves) for leaves in zip(*updated, strict=True))
    after = state._replace(weights=weights, m=m, v=v, updates=count)
    if not dynamic_scale:
        return after, norm, jnp.array(True)
    taken = jnp.isfinite(norm) | (state.scale <= 1)
    kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), after, state)
    return next_loss_scale(kept, taken), norm, taken


def global_norm(gradients: list[Array]) -> Array:
    """Return √Σ g² over all trained tensors."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))


def clip_factor(norm: Array, clip: float) -> Array | float:
    """Return the factor of gradients that clips them, c / N; nothing is added to N."""
    return jnp.where(norm > clip, clip / norm, 1.0) if clip else 1.0


def _adamw_step(section: OptimizerConfig, factor: Array | float, rate: Array, count: Array) -> AdamWStep:
    """Return AdamW of one array, with ε added after the bias correction.

    Args:
        section: AdamW's constants.
        factor: factor of the gradients.
        rate: the learning rate.
        count: number of this update, from 1.
    """
    correction1, correction2 = (_bias_correction(beta, count) for beta in (section.beta1, section.beta2))

    def step(weight: Array, m: Array, v: Array, gradient: Array, kind: UpdateKind) -> tuple[Array, Array, Array]:
        if kind == "frozen":
            return weight, m, v
        gradient = gradient * factor
        m = section.beta1 * m + (1 - section.beta1) * gradient
        v = section.beta2 * v + (1 - section.beta2) * jnp.square(gradient)
        update = m / correction1 / (jnp.sqrt(v / correction2) + section.eps)
        decay = section.weight_decay * weight if kind == "decayed" else 0.0
        return weight - rate * (update + decay), m, v

    return step


def next_loss_scale(state: StateArrays, taken: Array) -> StateArrays:
    """Halve the loss scale after a skipped step, and double it after enough steps that were taken."""
    good = jnp.where(taken, state.good + 1, 0)
    grows = good >= LOSS_SCALE_GROWTH_INTERVAL
    scale = jnp.where(taken, jnp.where(grows, state.scale * 2, state.scale), state.scale / 2)
    return state._replace(scale=scale, good=jnp.where(grows, 0, good))


def _bias_correction(beta: float, count: Array) -> Array:
    """Return 1 − βᵗ, exact for β near 1."""
    return -jnp.expm1(count.astype(jnp.float32) * (math.log(beta) if beta else -math.inf))
