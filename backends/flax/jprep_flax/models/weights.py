"""Weights under transformers' names: where each lies in a model, loading and extracting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
import numpy.typing as npt
from flax import nnx

from jprep.train.models import TensorSpec, parameters
from jprep.train.models.weights import HEAD_PREFIX

Floats = npt.NDArray[np.float32]
Path = tuple[str | int, ...]


class TensorLocation(NamedTuple):
    """Where a tensor of transformers lies in a model.

    Attributes:
        path: path of the array in the model: the name of the tensor without the number of its layer.
        layer: index of the tensor in the array that is stacked over layers; None outside the layers.
        tensor: shape and kind of the tensor. The array's last dimensions hold the same numbers in the same order.
    """

    path: Path
    layer: int | None
    tensor: TensorSpec


def tensor_locations(config: dict[str, Any], task: str) -> dict[str, TensorLocation]:
    """Return the location of every tensor by name, the layers in ascending order."""
    return {name: _location(name, tensor) for name, tensor in parameters(config, task).items()}


def load_weights(
    abstract: nnx.State,
    config: dict[str, Any],
    task: str,
    read: Callable[[str], Floats],
    put: Callable[[Floats, Any], jax.Array],
) -> nnx.State:
    """Return the weights of a model, read one array at a time.

    Args:
        abstract: the state of a `ModelWithLoss` that was built under `nnx.eval_shape`.
        config: the config of transformers.
        task: the job's task.
        read: returns a tensor by name.
        put: moves an array to the devices of a variable, its second argument.
    """
    flat, loaded = dict(nnx.to_flat_state(abstract)), {}
    for path, names in _names_by_path(config, task).items():
        variable = flat[path]
        array = read(names[0]) if len(names) == 1 else np.stack([read(name) for name in names])
        loaded[path] = variable.replace(put(_padded(array, variable.shape), variable))
    return nnx.from_flat_state(loaded.items())


def extract_tensor(array: npt.ArrayLike, location: TensorLocation) -> Floats:
    """Return a tensor from the array that holds it, without the rows that only pad an embedding."""
    whole = np.asarray(array, np.float32)
    part = whole if location.layer is None else whole[location.layer]
    return part.reshape(-1)[: location.tensor.size].reshape(location.tensor.shape)


def _padded(array: Floats, shape: tuple[int, ...]) -> Floats:
    """Return an array in a shape that may have more rows, filled with zeros."""
    if array.size == math.prod(shape):
        return array.reshape(shape)
    flat = np.zeros(math.prod(shape), np.float32)
    flat[: array.size] = array.reshape(-1)
    return flat.reshape(shape)


def _location(name: str, tensor: TensorSpec) -> TensorLocation:
    parts = name.split(".")
    if name.startswith(HEAD_PREFIX):  # a user's own module: numbers are places in its lists
        return TensorLocation(tuple(int(part) if part.isdigit() else part for part in parts), None, tensor)
    number = next((part for part in parts if part.isdigit()), None)
    path = tuple(part for part in parts if part != number)
    return TensorLocation(path, None if number is None else int(number), tensor)


def _names_by_path(config: dict[str, Any], task: str) -> dict[Path, list[str]]:
    """Return the names of the tensors of each array, the layers in ascending order."""
    names: dict[Path, list[str]] = {}
    for name, location in tensor_locations(config, task).items():
        names.setdefault(location.path, []).append(name)
    return names
