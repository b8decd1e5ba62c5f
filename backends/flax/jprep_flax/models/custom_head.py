"""A user's own head."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from flax import nnx
from jax import Array

from jprep.train.hooks.calls import check_head_outputs, head_config
from jprep.train.hooks.loading import Hook
from jprep_flax.models.custom_loss import ARRAYS


def build_head(hook: Hook, config: dict[str, Any], rngs: nnx.Rngs) -> nnx.Module:
    """Return a head.

    Args:
        hook: its class.
        config: transformers' config of the model.
        rngs: what layers of flax.nnx need to be created; the initial weights are jprep's.

    Raises:
        ConfigError: it cannot be created, is not a module, or has a state that checkpoints do not hold.
    """
    head = hook(head_config(config), rngs)
    if not isinstance(head, nnx.Module):
        raise hook.error(f"created {type(head).__name__}: it must be a class derived from flax.nnx.Module")
    for path, variable in nnx.to_flat_state(nnx.state(head)):
        name = ".".join(map(str, path))
        if not isinstance(variable, nnx.Param):
            fix = "use nnx.Param; for dropout use the argument `key` of __call__"
            raise hook.error(
                f"has {name!r} of the type {type(variable).__name__}, and only nnx.Param is saved", fix=fix
            )
        if variable.dtype != jnp.float32:
            raise hook.error(f"has the parameter {name!r} in {variable.dtype}", fix="create it in float32")
    return head


def call_head(hook: Hook, head: Any, hidden: Array, mask: Array, labels: int, key: Array | None) -> Array:
    """Return the outputs of a head, fp32, (rows, labels).

    Args:
        hook: its class.
        head: the head.
        hidden: hidden states of the last layer, (rows, length, width).
        mask: int32, (rows, length): 0 for padding.
        labels: number of labels.
        key: random key of dropout; None drops nothing.

    Raises:
        ConfigError: it failed, or its outputs have another shape.
    """
    with hook.errors():
        found = head(hidden, mask, key)
    check_head_outputs(hook, found, (len(hidden), labels), ARRAYS)
    return found.astype(jnp.float32)
