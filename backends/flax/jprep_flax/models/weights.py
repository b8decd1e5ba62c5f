"""Weights by transformers' names: where each lies in a model, loading and saving."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx

from jprep.train.models import TensorSpec, parameters

Floats = npt.NDArray[np.float32]
Path = tuple[str, ...]


class TensorLocation(NamedTuple):
    """Where a tensor of transformers' lies.

    Attributes:
        path: of the array in the model: the tensor's name, but for the number of its layer.
        layer: which of the array's layers; None where it has none.
        tensor: its shape and more; the array's last dimensions have the same numbers in the same order.
    """

    path: Path
    layer: int | None
    tensor: TensorSpec


def tensor_locations(config: dict[str, Any], task: str) -> dict[str, TensorLocation]:
    """Every tensor's name → where it lies; a layer's before those of the next."""
    return {name: _spot(name, tensor) for name, tensor in parameters(config, task).items()}


def load_weights(
    abstract: nnx.State,
    config: dict[str, Any],
    task: str,
    read: Callable[[str], Floats],
    put: Callable[[Floats, Any], jax.Array],
) -> nnx.State:
    """A model's weights, an array at a time.

    Args:
        abstract: the state of a `Trainee` that was made under `nnx.eval_shape`.
        config: transformers' config.
        task: the job's.
        read: gives a tensor by its name.
        put: brings an array to where the variable (its second argument, of the state) is to be.
    """
    flat, found = dict(nnx.to_flat_state(abstract)), {}
    for path, own in _by_path(config, task).items():
        variable = flat[path]
        array = read(own[0]) if len(own) == 1 else np.stack([read(name) for name in own])
        found[path] = variable.replace(put(_filled(array, variable.shape), variable))
    return nnx.from_flat_state(found.items())


def extract_tensor(array: npt.ArrayLike, spot: TensorLocation) -> Floats:
    """A tensor, from the array that it lies in; rows that only fill a table up are left out."""
    whole = np.asarray(array, np.float32)
    part = whole if spot.layer is None else whole[spot.layer]
    return part.reshape(-1)[: spot.tensor.size].reshape(spot.tensor.shape)


def _filled(array: Floats, shape: tuple[int, ...]) -> Floats:
    """In the shape of an array that may have further rows: zeros."""
    if array.size == math.prod(shape):
        return array.reshape(shape)
    flat = np.zeros(math.prod(shape), np.float32)
    flat[: array.size] = array.reshape(-1)
    return flat.reshape(shape)


def _spot(name: str, tensor: TensorSpec) -> TensorLocation:
    parts = name.split(".")
    number = next((part for part in parts if part.isdigit()), None)
    path = tuple(part for part in parts if part != number)
    return TensorLocation(path, None if number is None else int(number), tensor)


def _by_path(config: dict[str, Any], task: str) -> dict[Path, list[str]]:
    """Each array's path → the tensors in it, a layer's before the next one's."""
    found: dict[Path, list[str]] = {}
    for name, spot in tensor_locations(config, task).items():
        found.setdefault(spot.path, []).append(name)
    return found
