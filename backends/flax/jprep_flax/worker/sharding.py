"""The mesh's axes, and how a step's numbers lie along them. Where no mesh is set nothing is divided."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
from jax import Array, lax
from jax.sharding import PartitionSpec, get_abstract_mesh

DATA, FSDP, TENSOR = AXES = ("data", "fsdp", "tensor")
BATCH_AXES = (DATA, FSDP)
"""The axes along which rows are divided."""


def batch_shards() -> int:
    """How many shares a batch's rows are divided into."""
    mesh = get_abstract_mesh()
    return 1 if mesh.empty else math.prod(mesh.shape[axis] for axis in BATCH_AXES)


def shard_batch(x: Array) -> Array:
    """The same, each device with its own rows. XLA would rather divide along a weight's axes, and have all rows."""
    return x if batch_shards() == 1 else lax.with_sharding_constraint(x, PartitionSpec(BATCH_AXES))


def replicate_vectors(table: Array, divided: bool) -> Array:
    """A table of vectors, none of them cut: looking up would give each device a part of all rows' vectors.

    Args:
        table: (ids, width).
        divided: whether ids lie along `tensor`.
    """
    spec = PartitionSpec(TENSOR if divided else None)
    return table if batch_shards() == 1 else lax.with_sharding_constraint(table, spec)


def sum_over_batch(part: Callable[..., Array], weights: Any, *rows: Array) -> Array:
    """The sum of what each device makes of its own rows; gradients of weights are summed once, at the end.

    Args:
        part: makes a number, of all weights and a share of the rows.
        weights: a tree of arrays; each device is given whole ones, but for those that lie along `tensor`.
        rows: arrays, their first axis the rows.
    """
    if batch_shards() == 1:
        return part(weights, *rows)

    own = PartitionSpec(BATCH_AXES)
    each = jax.shard_map(
        lambda *given: part(*given)[None],
        in_specs=(PartitionSpec(), *(own for _ in rows)),
        out_specs=own,
        axis_names=set(BATCH_AXES),
        check_vma=False,  # the sum outside is what sums gradients
    )
    return each(weights, *rows).sum()
