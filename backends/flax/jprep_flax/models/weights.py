"""Weights under transformers' names: where each lies in a model, and loading."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypeVar

import jax
from flax import nnx

from jprep.errors import ConfigError
from jprep.io.safetensors_file import Floats, Shape
from jprep.train.models import FAMILIES, TensorSpec, parameters
from jprep.train.models.weights import HEAD_PREFIX
from jprep_flax.models.stored_array import StoredArray

Path = tuple[str | int, ...]
T = TypeVar("T")


class TensorLocation(NamedTuple):
    """Where a tensor of transformers lies in a model.

    Attributes:
        path: path of the array in the model: the name of the tensor without the number of its layer.
        layer: index of the tensor in the array that is stacked over the layers that have it; None outside the layers.
        tensor: shape and kind of the tensor. The array's last dimensions hold the same numbers in the same order.
    """

    path: Path
    layer: int | None
    tensor: TensorSpec

    def in_layer(self, axes: tuple[T, ...]) -> tuple[T, ...]:
        """Return what belongs to the tensor's axes, given something for each axis of the array."""
        return axes if self.layer is None else axes[1:]

    def view(self, shape: Shape) -> Shape:
        """Return the tensor's shape in an array of some shape, without rows that only pad an embedding."""
        rows, *rest = self.in_layer(shape) or (1,)
        return min(rows, self.tensor.size // math.prod(rest)), *rest


def tensor_locations(config: dict[str, Any], task: str) -> dict[str, TensorLocation]:
    """Return the location of every tensor by name, the layers in ascending order."""
    found: dict[str, TensorLocation] = {}
    counts = Counter[Path]()
    for name, tensor in parameters(config, task).items():
        path, stacked = _path(name)
        found[name] = TensorLocation(path, counts[path] if stacked else None, tensor)
        counts[path] += 1
    return found


def load_weights(
    abstract: nnx.State,
    config: dict[str, Any],
    task: str,
    read: Callable[[str], Floats],
    put: Callable[[StoredArray, Any], jax.Array],
    without: Collection[Path] = (),
) -> nnx.State:
    """Return the weights of a model.

    Args:
        abstract: the state of a `ModelWithLoss` that was built under `nnx.eval_shape`.
        config: the config of transformers.
        task: the job's task.
        read: returns a tensor by name, memory-mapped perhaps.
        put: reads an array, and moves it to the devices of a variable, its second argument.
        without: paths of arrays that are left out.
    """
    flat, loaded = dict(nnx.to_flat_state(abstract)), {}
    by_path = _names_by_path(config, task)
    if FAMILIES[config["model_type"]].plugin:
        _check_paths(flat, by_path, config, task)
    for path, names in ((path, names) for path, names in by_path.items() if path not in without):
        variable = flat[path]
        stored = StoredArray([read(name) for name in names], variable.shape)
        loaded[path] = variable.replace(put(stored, variable))
    return nnx.from_flat_state(loaded.items())


def _check_paths(flat: Mapping[Path, Any], names: Mapping[Path, list[str]], config: dict[str, Any], task: str) -> None:
    """Check that a plugin's model has the weights that its family names.

    Raises:
        ConfigError: one is missing, unknown or of another size.
    """
    tensors, kind = parameters(config, task), config["model_type"]
    for path, own in names.items():
        first, at = tensors[own[0]], ".".join(map(str, path))
        wanted = f"{len(own)} of {first.shape}, stacked" if len(own) > 1 else str(first.shape)
        if path not in flat:
            raise _faulty(kind, f"has no weight {at!r}", f"the family has it as {wanted}")
        shape, size = flat[path].shape, sum(tensors[name].size for name in own)
        padded = len(own) == 1 and first.shape[:1] == (config["vocab_size"],) and math.prod(shape) >= size
        stacked = len(own) == 1 or shape[:1] == (len(own),)
        if not (stacked and (padded or math.prod(shape) == size)):
            raise _faulty(kind, f"has the weight {at!r} as {shape}", f"the family has it as {wanted}")
    if unknown := sorted(".".join(map(str, path)) for path in flat.keys() - names.keys()):
        fix = "name it in `weights` of the family, or make it no nnx.Param"
        raise _faulty(kind, f"has the weight {unknown[0]!r}, which the family does not name", fix)


def _faulty(kind: str, what: str, fix: str) -> ConfigError:
    return ConfigError(f"the Flax model of the family {kind!r} {what}", where=f"model_type {kind}", fix=fix)


def _path(name: str) -> tuple[Path, bool]:
    """Return the path of the array that holds a tensor, and whether it is stacked over layers."""
    parts: Path = tuple(int(part) if part.isdigit() else part for part in name.split("."))
    layer = next((place for place, part in enumerate(parts) if isinstance(part, int)), None)
    if layer is None or name.startswith(HEAD_PREFIX):  # numbers in a user's own module are places in its lists
        return parts, False
    return parts[:layer] + parts[layer + 1 :], True


def _names_by_path(config: dict[str, Any], task: str) -> dict[Path, list[str]]:
    """Return the names of the tensors of each array, the layers in ascending order."""
    names: dict[Path, list[str]] = {}
    for name, location in tensor_locations(config, task).items():
        names.setdefault(location.path, []).append(name)
    return names
