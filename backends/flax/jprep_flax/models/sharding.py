"""The axes of the mesh, and constraints on how arrays are sharded along them. Without a mesh nothing is sharded."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec, get_abstract_mesh

DATA, FSDP, TENSOR = AXES = ("data", "fsdp", "tensor")
BATCH_AXES = (DATA, FSDP)
"""The axes along which the rows of a batch are sharded."""


Index = tuple[tuple[int, int], ...]
"""Where a shard of an array lies: its first index and the one after its last, along each axis."""


def shard_holders(array: Array) -> dict[Index, list[int]]:
    """Return the processes that hold each distinct shard of an array. It is the same on each process."""
    found: dict[Index, set[int]] = {}
    for device, index in array.sharding.devices_indices_map(array.shape).items():
        found.setdefault(_bounds(index, array.shape), set()).add(device.process_index)
    return {index: sorted(processes) for index, processes in found.items()}


def local_shards(array: Array) -> dict[Index, Array]:
    """Return the distinct shards of an array that this process holds; of several copies that of the first device.

    It is the copy that `copy_to_host_async` moves.
    """
    return {_bounds(shard.index, array.shape): shard.data for shard in reversed(array.addressable_shards)}


def _bounds(index: tuple[slice, ...], shape: tuple[int, ...]) -> Index:
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


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


def map_layers(function: Callable[[Array], Array], stack: Array) -> Array:
    """Return a function of each matrix of a stack. Each device takes one whole matrix at a time.

    Args:
        function: maps (1, rows, columns) to the same shape.
        stack: (layers, rows, columns); rows and columns may be sharded, layers not.
    """
    devices = max(1, get_abstract_mesh().size)  # it is 0 without a mesh
    layers, *shape = stack.shape
    padding = [(0, -layers % devices), *((0, 0) for _ in shape)]
    results: Array = lax.map(_on_each_device(function), jnp.pad(stack, padding).reshape(-1, devices, *shape))
    return results.reshape(-1, *shape)[:layers]


def _on_each_device(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Return a function of as many matrices as there are devices, each of which takes one."""
    if get_abstract_mesh().size <= 1:
        return function
    spec = PartitionSpec(AXES)
    mapped = jax.shard_map(function, in_specs=spec, out_specs=spec, check_vma=False)
    # Between the two shardings there is one along all axes but `tensor`: without it XLA replicates all matrices.
    step = PartitionSpec(BATCH_AXES, PartitionSpec.UNCONSTRAINED, PartitionSpec.UNCONSTRAINED)

    def apply(matrices: Array) -> Array:
        results = mapped(lax.with_sharding_constraint(matrices, step))
        return lax.with_sharding_constraint(results, step)

    return apply


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
