"""What every backend saves, in the same files: weights, AdamW's averages, progress. None is a pickle.

A checkpoint holds `model.safetensors` (weights as an export has them), `optimizer.safetensors` (`m.NAME` and `v.NAME`
of each trained weight) and `state.json`. Where several processes write, each has files of its own with some of the
tensors, `model-00003-of-00008.safetensors`. Nothing depends on how many they were or on what they run, so a run may go
on with another number of processes, other options or another backend.
"""

from __future__ import annotations

import heapq
import math
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path

import msgspec

from jprep.errors import InputError
from jprep.io.atomic import write_error
from jprep.io.retry import retry_transient
from jprep.io.safetensors_file import Floats, Shape, TensorFiles, write_tensors

WEIGHTS, OPTIMIZER, STATE = "model", "optimizer", "state.json"
AVERAGES = ("m", "v")
"""AdamW's: of the gradient, and of its square."""

_REPAIR = "repair the file system, then run the same command again"

Blocks = Callable[[str], Iterable[Floats]]
"""Gives a tensor's numbers by its name, its last dimension running fastest."""


class TrainProgress(msgspec.Struct, frozen=True):
    """What else the next update needs.

    Attributes:
        updates: how many the averages have seen; fewer than steps where fp16 has passed over some.
        scale: of the loss; 1 but for fp16.
        good: steps since that scale was changed, or since a gradient was not finite.
    """

    updates: int
    scale: float = 1.0
    good: int = 0


def tensor_file_name(kind: str, part: int = 0, parts: int = 1) -> str:
    """The name of the file that a process writes of `WEIGHTS` or `OPTIMIZER`, or of the only one."""
    return f"{kind}.safetensors" if parts == 1 else f"{kind}-{part:05d}-of-{parts:05d}.safetensors"


def average_shapes(shapes: Mapping[str, Shape], trained: Iterable[str]) -> dict[str, Shape]:
    """The tensors of `OPTIMIZER`: two of the shape of each trained weight."""
    own = list(trained)
    return {f"{mark}.{name}": shapes[name] for mark in AVERAGES for name in own}


def tensors_of_part(shapes: Mapping[str, Shape], part: int, parts: int) -> dict[str, Shape]:
    """The tensors that one of several processes writes, about as many numbers as the others; the largest go first."""
    piles = [(0, number) for number in range(parts)]
    own = set()
    for name in sorted(shapes, key=lambda name: (-math.prod(shapes[name]), name)):
        numbers, pile = heapq.heappop(piles)
        heapq.heappush(piles, (numbers + math.prod(shapes[name]), pile))
        own |= {name} if pile == part else set()
    return {name: shape for name, shape in shapes.items() if name in own}


def write_part(
    folder: Path, kind: str, shapes: Mapping[str, Shape], blocks: Blocks, part: int = 0, parts: int = 1
) -> None:
    """Write a process's tensors of `WEIGHTS` or `OPTIMIZER`.

    Raises:
        OSError: the disk is full or not writable.
    """
    write_tensors(folder / tensor_file_name(kind, part, parts), shapes, blocks)


def write_from_first(folder: Path, kind: str, shapes: Mapping[str, Shape], blocks: Blocks, *, first: bool) -> None:
    """Have the first of several processes write tensors, one at a time. The others read them as well: a tensor that is
    divided is gathered by all, and what one of XLA's hosts has computed all have to.

    Raises:
        OSError: the disk is full or not writable.
    """
    if first:
        write_part(folder, kind, shapes, blocks)
    else:
        for name in shapes:
            for _ in blocks(name):
                pass


def write_progress(folder: Path, progress: TrainProgress) -> None:
    """Write `state.json`; the first process does it."""
    (folder / STATE).write_bytes(msgspec.json.encode(progress))


class CheckpointReader:
    """A checkpoint whose hashes were checked.

    Args:
        folder: where it is.

    Attributes:
        weights: by transformers' names.

    Raises:
        InputError: it has none of these files: another program wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.weights = TensorFiles(_files(folder, WEIGHTS))
        if not self.weights:
            fix = "give a checkpoint of one of jprep's backends"
            raise InputError(f"there is no {tensor_file_name(WEIGHTS)} in this checkpoint", where=str(folder), fix=fix)

    @cached_property
    def averages(self) -> TensorFiles:
        """AdamW's, `m.NAME` and `v.NAME`."""
        return TensorFiles(_files(self._folder, OPTIMIZER))

    @cached_property
    def progress(self) -> TrainProgress:
        """How far it is."""
        path = self._folder / STATE
        return msgspec.json.decode(retry_transient(path.read_bytes, path, _REPAIR), type=TrainProgress)

    def export(self, folder: Path) -> None:
        """Write `model.safetensors` with all weights. Memory is that of a block.

        Raises:
            MachineError: the disk is full or not writable.
        """
        shapes = {name: self.weights.entries[name][1].shape for name in sorted(self.weights)}
        try:
            write_part(folder, WEIGHTS, shapes, self.weights.blocks)
        except OSError as error:
            raise write_error(error, folder) from error


def _files(folder: Path, kind: str) -> list[Path]:
    """All files of a kind, of one process or of several."""
    paths = retry_transient(lambda: list(folder.iterdir()), folder, _REPAIR)
    pattern = re.compile(rf"{kind}(-\d+-of-\d+)?\.safetensors")
    return sorted(path for path in paths if pattern.fullmatch(path.name))
