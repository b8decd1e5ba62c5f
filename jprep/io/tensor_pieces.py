"""Tensors that several processes write in pieces, each into a file of its own, and that are joined afterwards."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np

from jprep.errors import JprepError
from jprep.io.safetensors_file import Floats, Shape, TensorFiles

_BLOCK = 1 << 20  # numbers

Box = list[tuple[int, int]]
"""The first index of a part of an array and the one after its last, along each axis."""


class Piece(NamedTuple):
    """Where a piece lies in its tensor.

    Attributes:
        tensor: name of the tensor.
        view: a shape of at least one axis with the same numbers in the same order, which is divided along its axes.
        start: index of the piece's first number in the view.
    """

    tensor: str
    view: Shape
    start: Shape

    @property
    def key(self) -> str:
        """The name of the piece in a safetensors file."""
        return msgspec.json.encode(self).decode()


class _StoredPiece(NamedTuple):
    """A piece in a file."""

    piece: Piece
    file: TensorFiles

    @property
    def box(self) -> Box:
        shape = self.file.entries[self.piece.key][1].shape
        return [(first, first + size) for first, size in zip(self.piece.start, shape, strict=True)]


class TensorPieces:
    """Whole tensors from the pieces in safetensors files.

    Args:
        paths: the files; each piece is in one of them, under its `key`.
        shapes: names and shapes of the tensors.

    Attributes:
        shapes: the same, ordered by name.

    Raises:
        ConfigError: a file cannot be read.
        InputError: a file is damaged.
        JprepError: the pieces are not those of the tensors, each number once.
    """

    def __init__(self, paths: Iterable[Path], shapes: Mapping[str, Shape]) -> None:
        self.shapes = dict(sorted(shapes.items()))
        self._pieces: dict[str, list[_StoredPiece]] = {name: [] for name in self.shapes}
        for file in (TensorFiles([path]) for path in paths):
            for key in file:
                piece = msgspec.json.decode(key, type=Piece)
                self._pieces.setdefault(piece.tensor, []).append(_StoredPiece(piece, file))
        for name, pieces in self._pieces.items():
            if problem := _find_problem(pieces, self.shapes.get(name)):
                raise JprepError(f"the pieces of {name!r} {problem}", fix="report it")

    def blocks(self, name: str) -> Iterator[Floats]:
        """Yield a tensor's numbers in row-major order, a block of its first axis at a time."""
        pieces = [(piece.start, file[piece.key]) for piece, file in self._pieces[name]]
        rows, *rest = self._pieces[name][0].piece.view
        step = max(1, _BLOCK // max(1, math.prod(rest)))
        for first in range(0, rows, step):
            block = np.empty((min(step, rows - first), *rest), np.float32)
            for (start, *others), numbers in pieces:
                low, high = max(first, start), min(first + len(block), start + len(numbers))
                if low < high:
                    place_piece(block, (low - first, *others), numbers[low - start : high - start])
            yield block


def place_piece(whole: Floats, start: Shape, piece: Floats) -> None:
    """Copy a piece to its place in an array."""
    whole[tuple(slice(first, first + size) for first, size in zip(start, piece.shape, strict=True))] = piece


def _find_problem(pieces: Sequence[_StoredPiece], shape: Shape | None) -> str | None:
    """Return why pieces are not a tensor of some shape, each number once; None if they are."""
    if shape is None:
        return "belong to no tensor of the checkpoint"
    boxes = [piece.box for piece in pieces]
    found = sum(math.prod(last - first for first, last in box) for box in boxes)
    if found != math.prod(shape):
        return f"have {found} numbers, and the tensor has {math.prod(shape)}"
    views = {piece.view for piece, _ in pieces}
    return None if len(views) == 1 and _are_partition(boxes, *views) else "overlap or lie outside it"


def _are_partition(boxes: Sequence[Box], view: Shape) -> bool:
    """Return whether each number of a view is in one of the boxes and in no other, and nothing else is in them.

    The edges of all boxes divide the view into cells; whether each is in one box is known without comparing each box
    with each other one.
    """
    edges = [sorted({0, size, *itertools.chain(*bounds)}) for size, *bounds in zip(view, *boxes, strict=True)]
    cells = np.zeros([len(each) - 1 for each in edges], np.int32)
    for box in boxes:
        cells[tuple(slice(*map(each.index, bounds)) for each, bounds in zip(edges, box, strict=True))] += 1
    within = all((each[0], each[-1]) == (0, size) for each, size in zip(edges, view, strict=True))
    return within and bool((cells == 1).all())
