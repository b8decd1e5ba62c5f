"""A tensor's shape and initialization, and those of common layers."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from jprep.train.models.model_family import TransformersConfig

InitKind = Literal["normal", "zeros", "ones"]


class TensorSpec(NamedTuple):
    """One tensor of a model.

    Attributes:
        shape: its shape.
        kind: its initialization.
        std: the standard deviation of `normal`.
        zero_row: a row of `normal` that is initialized with zeros; -1 for none.
        trained: whether it is trained; otherwise it has no part in clipping and decay either.
        head: whether it belongs to a classification head, which files of pretrained models lack.
    """

    shape: tuple[int, ...]
    kind: InitKind = "normal"
    std: float = 0.0
    zero_row: int = -1
    trained: bool = True
    head: bool = False

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)


TensorSpecs = dict[str, TensorSpec]


def table(name: str, rows: int, width: int, config: TransformersConfig, zero_row: int | None = None) -> TensorSpecs:
    """Return an embedding."""
    std = config["initializer_range"]
    return {f"{name}.weight": TensorSpec((rows, width), std=std, zero_row=-1 if zero_row is None else zero_row)}


def linear(name: str, inputs: int, outputs: int, config: TransformersConfig, bias: bool = True) -> TensorSpecs:
    """Return a linear layer."""
    weight = {f"{name}.weight": TensorSpec((outputs, inputs), std=config["initializer_range"])}
    return weight | ({f"{name}.bias": TensorSpec((outputs,), "zeros")} if bias else {})


def norm(name: str, width: int, bias: bool = True) -> TensorSpecs:
    """Return a norm."""
    weight = {f"{name}.weight": TensorSpec((width,), "ones")}
    return weight | ({f"{name}.bias": TensorSpec((width,), "zeros")} if bias else {})


def residual(tensors: TensorSpecs, config: TransformersConfig) -> TensorSpecs:
    """Return a layer with smaller weights, because each of the model's layers adds two such to the residual stream."""
    share = math.sqrt(2 * config["num_hidden_layers"])
    return {name: tensor._replace(std=tensor.std / share) for name, tensor in tensors.items()}
