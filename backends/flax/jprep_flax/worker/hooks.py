"""Try a user's loss and head on tiny arrays, before anything is trained (`jprep.train.hooks.check`)."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.hooks.check import check_traced_loss, sample_labels
from jprep.train.hooks.loading import Hook, LoadedHooks
from jprep.train.models.model_family import model_width
from jprep_flax.models.custom_head import build_head, call_head
from jprep_flax.models.custom_loss import LossBatch, call_loss

_LENGTH = 4


def check_hooks(hooks: LoadedHooks, model: dict[str, Any], task: str) -> dict[str, tuple[int, ...]] | None:
    """Call the loss and the head once; see `jprep.train.hooks.check.FrameworkCheck`."""
    if hooks.loss:
        _check_loss(hooks.loss, model, task)
    return _check_head(hooks.head, model) if hooks.head else None


def _check_loss(hook: Hook, model: dict[str, Any], task: str) -> None:
    @jax.jit
    def loss(logits: Array, labels: Array, mask: Array) -> tuple[Array, Array]:
        ids = jnp.zeros((len(labels), _LENGTH), jnp.int32)
        return call_loss(hook, logits, labels, LossBatch(ids, jnp.ones_like(ids), None, mask))

    def gradient(*given: Array) -> tuple[Array, Array, Array]:
        (total, count), slope = jax.value_and_grad(loss, has_aux=True)(*given)
        return total, count, slope

    check_traced_loss(hook, sample_labels(model, task), loss, gradient)


def _check_head(hook: Hook, model: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    graph, weights = nnx.split(build_head(hook, model, nnx.Rngs(0)))
    width, labels = model_width(model), len(model["id2label"])
    hidden, mask = jnp.ones((2, _LENGTH, width)), jnp.ones((2, _LENGTH), jnp.int32)

    def outputs(weights: nnx.State, hidden: Array) -> Array:
        return call_head(hook, nnx.merge(graph, weights), hidden, mask, labels, None)

    jax.eval_shape(lambda weights: call_head(hook, nnx.merge(graph, weights), hidden, mask, labels, jax.random.key(0)),
                   weights)  # fmt: skip
    used = _used(lambda weights: outputs(weights, hidden).sum(), weights)
    for name, is_used in used.items():
        if not is_used:
            raise hook.error(f"does not use its parameter {name!r}", fix="use it in __call__, or remove it")
    return {".".join(map(str, path)): tuple(one.shape) for path, one in nnx.to_flat_state(weights)}


def _used(function: Any, weights: nnx.State) -> dict[str, bool]:
    """Return whether a function uses each weight, from the inputs of its traced program."""
    traced = jax.make_jaxpr(function)(weights).jaxpr
    read = {id(value) for equation in traced.eqns for value in equation.invars}
    names = (".".join(map(str, path)) for path, _ in nnx.to_flat_state(weights))
    return {name: id(value) in read for name, value in zip(names, traced.invars, strict=True)}
