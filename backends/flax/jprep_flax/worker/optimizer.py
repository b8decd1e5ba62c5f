"""The optimizer's step: update rules, gradient clipping and the loss scale of fp16 of `docs/training.md`."""

from __future__ import annotations

from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.io.safetensors_file import Shape
from jprep.train.optimization.loss_scale import next_loss_scale
from jprep.train.optimization.optimizer import OptimizerConfig
from jprep_flax.worker.update_rules.adamw import AdamWStep, adamw_step
from jprep_flax.worker.update_rules.muon import MuonStep, muon_step

UpdateKind = Literal["decayed", "not decayed", "frozen"]
"""How a weight is updated: with weight decay, without it, or not at all."""


class StateArrays(NamedTuple):
    """All arrays that a step changes.

    Attributes:
        weights: weights of the model, fp32.
        m: AdamW's average of the gradient, or Muon's momentum, with the structure of the weights.
        v: AdamW's average of the squared gradient, with the structure of the weights that Muon does not update.
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


class _WeightUpdate(NamedTuple):
    """One weight in a step.

    Attributes:
        weight: the weight.
        m: as in `StateArrays`.
        v: as in `StateArrays`; None if Muon updates the weight.
        gradient: the unscaled gradient.
        rate: the learning rate.
        kind: kind of update.
        matrix: if Muon updates the weight, the shape in transformers of each matrix that is stacked in it; else empty.
    """

    weight: Array
    m: Array
    v: Array | None
    gradient: Array
    rate: Array
    kind: UpdateKind
    matrix: Shape


def apply_update(
    state: StateArrays,
    gradient: nnx.State,
    rate: Array,
    section: OptimizerConfig,
    kinds: list[UpdateKind],
    factors: list[Array] | None = None,
    matrices: list[Shape | None] | None = None,
    *,
    dynamic_scale: bool,
) -> tuple[StateArrays, Array, Array]:
    """Apply a gradient.

    Args:
        state: state before the step.
        gradient: gradient of the global batch's loss, times the loss scale, with the structure of the weights.
        rate: the learning rate.
        section: the optimizer's constants.
        kinds: kind of update of each weight, in the order of the leaves.
        factors: factor of the learning rate of each, in the same order and in a shape that fits it; None for 1 each.
        matrices: for each weight that Muon updates, the shape in transformers of the matrices that are stacked in it,
            and None for each other weight, in the same order; None if Muon updates none.
        dynamic_scale: whether the loss scale changes, as in fp16.

    Returns:
        The state after the step; the norm of the unscaled gradient before clipping; whether the step was taken. It is
        skipped if the loss scale was too large.
    """
    gradients = [g / state.scale if dynamic_scale else g for g in jax.tree.leaves(gradient)]
    norm = global_norm([g for g, kind in zip(gradients, kinds, strict=True) if kind != "frozen"])
    rates = [rate] * len(gradients) if factors is None else [rate * factor for factor in factors]
    updates = _weight_updates(state, gradients, rates, kinds, matrices or [None] * len(gradients))
    after = _apply_rules(state, updates, section, clip_factor(norm, section.clip))
    if not dynamic_scale:
        return after, norm, jnp.array(True)
    taken = jnp.isfinite(norm) | (state.scale <= 1)
    kept = jax.tree.map(lambda new, old: jnp.where(taken, new, old), after, state)
    scale, good = next_loss_scale(kept.scale, kept.good, taken, jnp.where)
    return kept._replace(scale=scale, good=good), norm, taken


def _weight_updates(
    state: StateArrays,
    gradients: list[Array],
    rates: list[Array],
    kinds: list[UpdateKind],
    matrices: list[Shape | None],
) -> list[_WeightUpdate]:
    with_v = [number for number, shape in enumerate(matrices) if not shape]
    squares = dict(zip(with_v, jax.tree.leaves(state.v), strict=True))
    columns = zip(*map(jax.tree.leaves, state[:2]), gradients, rates, kinds, matrices, strict=True)
    return [
        _WeightUpdate(weight, m, squares.get(number), gradient, rate, kind, shape or ())
        for number, (weight, m, gradient, rate, kind, shape) in enumerate(columns)
    ]


def _apply_rules(
    state: StateArrays, updates: list[_WeightUpdate], section: OptimizerConfig, factor: Array | float
) -> StateArrays:
    """Return the state after a step."""
    count = state.updates + 1
    adamw, muon = adamw_step(section, factor, count), muon_step(section, factor)
    after = [_apply_rule(one, adamw, muon) for one in updates]
    leaves = [one.weight for one in after], [one.m for one in after], [one.v for one in after if one.v is not None]
    trees = (jax.tree.structure(tree) for tree in state[:3])
    weights, averages, squares = map(jax.tree.unflatten, trees, leaves)
    return state._replace(weights=weights, m=averages, v=squares, updates=count)


def _apply_rule(given: _WeightUpdate, adamw: AdamWStep, muon: MuonStep) -> _WeightUpdate:
    """Return a weight and its averages after a step."""
    weight, m, v, gradient, rate, kind, matrix = given
    if kind == "frozen":
        return given
    if v is None:
        weight, m = muon(weight, m, gradient, rate, kind == "decayed", matrix)
    else:
        weight, m, v = adamw(weight, m, v, gradient, rate, kind == "decayed")
    return given._replace(weight=weight, m=m, v=v)


def global_norm(gradients: list[Array]) -> Array:
    """Return √Σ g² over all trained tensors."""
    return jnp.sqrt(sum(jnp.sum(jnp.square(g)) for g in gradients))


def clip_factor(norm: Array, clip: float) -> Array | float:
    """Return the factor of gradients that clips them, c / N; nothing is added to N."""
    return jnp.where(norm > clip, clip / norm, 1.0) if clip else 1.0
