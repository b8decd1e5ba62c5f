"""AdamW, gradient clipping and the loss scale of fp16, as `docs/training.md` defines them, as pure functions.

Keras's own AdamW adds ε before the bias correction of v.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from keras import ops

from jprep.train.optimization.loss_scale import next_loss_scale
from jprep.train.optimization.optimizer import OptimizerConfig

Tensors = dict[str, Any]
"""Tensors by transformers' names."""

AdamWStep = Callable[[Any, Any, Any, Any], tuple[Any, Any, Any]]
"""Maps a weight, m, v and the gradient to the first three after the step."""


class StateArrays(NamedTuple):
    """All arrays that a step changes.

    Attributes:
        weights: weights of the model, fp32.
        m, v: AdamW's averages of the weights that are trained.
        updates: number of updates that the averages have seen, int32.
        scale: loss scale, fp32; 1 except in fp16.
        good: steps since the scale was changed, int32.
    """

    weights: Tensors
    m: Tensors
    v: Tensors
    updates: Any
    scale: Any
    good: Any


class StepResult(NamedTuple):
    """Figures of a step, on the devices.

    Attributes:
        loss: loss of the global batch, before the update.
        norm: norm of the gradient, before clipping.
        taken: whether the step was taken; fp16 skips steps whose loss scale was too large.
        scale: the loss scale.
    """

    loss: Any
    norm: Any
    taken: Any
    scale: Any


def apply_update(
    state: StateArrays, gradient: Tensors, rate: Any, section: OptimizerConfig, *, dynamic_scale: bool
) -> tuple[StateArrays, Any, Any]:
    """Apply a gradient.

    Args:
        state: state before the step.
        gradient: gradient of the global batch's loss, times the loss scale, of each weight that is trained.
        rate: the learning rate.
        section: AdamW's constants.
        dynamic_scale: whether the loss scale changes, as in fp16.

    Returns:
        The state after the step; the norm of the unscaled gradient before clipping; whether the step was taken. It is
        skipped if the loss scale was too large.
    """
    gradients = {name: g / state.scale if dynamic_scale else g for name, g in gradient.items()}
    norm = global_norm(gradients)
    count = state.updates + 1
    step = _adamw_step(section, clip_factor(norm, section.clip), rate, count)
    updated = {name: step(state.weights[name], state.m[name], state.v[name], g) for name, g in gradients.items()}
    weights, m, v = ({name: arrays[index] for name, arrays in updated.items()} for index in range(3))
    after = state._replace(weights=state.weights | weights, m=m, v=v, updates=count)
    if not dynamic_scale:
        return after, norm, ops.convert_to_tensor(True)
    taken = ops.logical_or(ops.isfinite(norm), state.scale <= 1)
    scale, good = next_loss_scale(state.scale, state.good, taken, ops.where)
    return _choose(taken, after, state)._replace(scale=scale, good=good), norm, taken


def global_norm(gradients: Tensors) -> Any:
    """Return √Σ g² over all trained tensors."""
    return ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients.values()))


def clip_factor(norm: Any, clip: float) -> Any:
    """Return the factor of gradients that clips them, c / N; nothing is added to N."""
    return ops.where(norm > clip, clip / norm, 1.0) if clip else 1.0


def _adamw_step(section: OptimizerConfig, factor: Any, rate: Any, count: Any) -> AdamWStep:
    """Return AdamW of one array, with ε added after the bias correction.

    Args:
        section: AdamW's constants.
        factor: factor of the gradients.
        rate: the learning rate.
        count: number of this update, from 1.
    """
    correction1, correction2 = (_bias_correction(beta, count) for beta in (section.beta1, section.beta2))

    def step(weight: Any, m: Any, v: Any, gradient: Any) -> tuple[Any, Any, Any]:
        gradient = gradient * factor
        m = section.beta1 * m + (1 - section.beta1) * gradient
        v = section.beta2 * v + (1 - section.beta2) * ops.square(gradient)
        update = m / correction1 / (ops.sqrt(v / correction2) + section.eps)
        decay = section.decay_of(len(weight.shape)) * weight
        return weight - rate * (update + decay), m, v

    return step


def _choose(taken: Any, after: StateArrays, before: StateArrays) -> StateArrays:
    """Return the state after the step if it was taken, else the one before it."""

    def chosen(new: Tensors, old: Tensors) -> Tensors:
        return {name: ops.where(taken, new[name], array) for name, array in old.items()}

    weights, m, v = (chosen(new, old) for new, old in zip(after[:3], before[:3], strict=True))
    updates = ops.where(taken, after.updates, before.updates)
    return before._replace(weights=weights, m=m, v=v, updates=updates)


def _bias_correction(beta: float, count: Any) -> Any:
    """Return 1 − βᵗ, exact for β near 1."""
    return -ops.expm1(ops.cast(count, "float32") * (math.log(beta) if beta else -math.inf))
