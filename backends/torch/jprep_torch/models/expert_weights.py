"""Weights of experts: one tensor for each in files, as transformers 4 has them; one for all in transformers 5's models.

A layer's `experts.gate_up_proj` has, for each expert, the rows of its `gate_proj.weight` and of its `up_proj.weight`;
`experts.down_proj` has its `down_proj.weight`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from torch import Tensor

from jprep.io.safetensors_file import Floats, Shape

_PARTS = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}
"""Last part of the name of a model's weight → the parts of each expert in it, one below the other."""

_EXPERT = re.compile(r"(.*\.experts)\.\d+\.(\w+)\.weight")


def parts_of(name: str) -> int:
    """Return how many matrices of files a matrix of a weight has, one below the other."""
    return len(_PARTS.get(name.rpartition(".")[2], ("",)))


def model_name(name: str) -> str:
    """Return the name of the weight that holds a tensor of a file in models of transformers 5."""
    if found := _EXPERT.fullmatch(name):
        layer, part = found.groups()
        return next(f"{layer}.{whole}" for whole, parts in _PARTS.items() if part in parts)
    return name


def read_weight(files: Mapping[str, Floats], name: str) -> Floats:
    """Return a weight of a model, or an average of the optimizer, from the tensors of files.

    Args:
        files: tensors by their names in files.
        name: the name in the model.
    """
    if name in files:
        return files[name]
    found: list[Floats] = []
    while _expert_names(name, len(found))[0] in files:
        found.append(np.concatenate([files[part] for part in _expert_names(name, len(found))]))
    return np.stack(found)


class FileTensors(Mapping[str, Tensor]):
    """The tensors that a file has, cut from a model's weights, which are read one at a time.

    Args:
        shapes: names and shapes of a model's weights, or of the averages of an optimizer; or of parts of these.
        read: returns one of them.
        first: the first row of each part in its tensor, by name; 0 if absent.

    Attributes:
        shapes: names and shapes of the tensors in the file, in the order of the weights.
    """

    def __init__(
        self,
        shapes: Mapping[str, Shape],
        read: Callable[[str], Tensor],
        first: Mapping[str, int] = {},
    ) -> None:
        self._read, self._last = read, ("", None)
        self._places: dict[str, tuple[str, tuple[int | slice, ...]]] = {}
        self.shapes: dict[str, Shape] = {}
        for name, shape in shapes.items():
            for part, place, own in _cut(name, shape, first.get(name, 0)):
                self._places[part], self.shapes[part] = (name, place), own

    def __getitem__(self, name: str) -> Tensor:
        """Return a tensor of the file. If reading gathers it, each process must ask for all, in the same order."""
        weight, place = self._places[name]
        last, whole = self._last
        if last != weight or whole is None:
            whole = self._read(weight)
            self._last = (weight, whole) if place else ("", None)
        found: Tensor = whole[place] if place else whole
        return found

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names in the order of `shapes`."""
        return iter(self.shapes)

    def __len__(self) -> int:
        """Return the number of tensors."""
        return len(self.shapes)


def _cut(name: str, shape: Shape, first: int) -> Iterator[tuple[str, tuple[int | slice, ...], Shape]]:
    """Yield the name, the place and the shape of each tensor of a file that a weight, or a part of it, holds."""
    layer, _, whole = name.rpartition(".")
    if whole not in _PARTS or not layer.endswith(".experts"):
        yield name, (), shape
        return
    experts, rows, width = shape
    own = rows // len(_PARTS[whole])
    for expert in range(experts):
        for number, part in enumerate(_expert_names(name, first + expert)):
            yield part, (expert, slice(number * own, (number + 1) * own)), (own, width)


def _expert_names(name: str, expert: int) -> Sequence[str]:
    """Return the names in files of one expert's parts of a weight."""
    layer, _, whole = name.rpartition(".")
    return [f"{layer}.{expert}.{part}.weight" for part in _PARTS[whole]]
