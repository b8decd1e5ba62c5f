"""The axes of the mesh, and constraints on how arrays are sharded along them. Without a mesh nothing is sharded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import Array, lax
from jax.sharding import PartitionSpec, get_abstract_mesh

DATA, FSDP, TENSOR = AXES = ("data", "fsdp", "tensor")
BATCH_AXES = (DATA, FSDP)
"""The axes along which the rows of a batch are sharded."""


def batch_shards() -> int:
    """Return the number of shards of a batch."""
    mesh = get_abstract_mesh()
    return 1 if mesh.empty else math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def shard_batch(x: Array) -> Array:
    """Constrain activations to be sharded by rows.

    Left alone, XLA shards them along the axes of a weight, and each device computes all rows.
    """
    return x if batch_shards() == 1 else lax.with_sharding_constraint(x, PartitionSpec(BATCH_AXES))


def replicate_vectors(table: Array, sharded: bool) -> Array:
    """Constrain the vectors of an embedding to be whole on each device.

    With sharded vectors a lookup would give each device a part of the vectors of all rows.

    Args:
        table: (ids, width).
        sharded: whether the ids are sharded along `tensor`.
    """
    spec = PartitionSpec(TENSOR if sharded else None)
    return table if batch_shards() == 1 else lax.with_sharding_constraint(table, spec)


def sum_over_batch(function: Callable[..., Array], weights: Any, *rows: Array) -> Array:
    """Return the sum over devices of a function of each device's rows; the gradient of weights is reduced once.

    Args:
        function: maps all weights and a shard of the rows to a number.
        weights: a tree of arrays; each device gets them whole, but for what is sharded along `tensor`.
        rows: arrays whose first axis is the rows.
    """
    if batch_shards() == 1:
        return function(weights, *rows)
    # the sum outside reduces gradients
    return _shard_rows(lambda *arguments: function(*arguments)[None], len(rows))(weights, *rows).sum()


def map_batch(function: Callable[..., Array], weights: Any, *rows: Array) -> Array:
    """Return a function of each device's rows for all rows.

    Args:
        function: maps all weights and a shard of the rows to an array with as many rows.
        weights: a tree of arrays; each device gets them whole, but for what is sharded along `tensor`.
        rows: arrays whose first axis is the rows.
    """
    return function(weights, *rows) if batch_shards() == 1 else _shard_rows(function, len(rows))(weights, *rows)


def _shard_rows(function: Callable[..., Array], count: int) -> Callable[..., Array]:
    """Return a function that each device applies to its own rows.

    Args:
        function: its arguments are weights, and `count` arrays of rows.
        count: number of arrays of rows.
    """
    spec = PartitionSpec(BATCH_AXES)
    mapped: Callable[..., Array] = jax.shard_map(
        function,
        in_specs=(PartitionSpec(), *(spec for _ in range(count))),
        out_specs=spec,
        axis_names=set(BATCH_AXES),
        check_vma=False,
    )
    return mapped
