"""The files of a checkpoint, the same for every backend: weights, the optimizer's averages and progress.

A checkpoint holds `model.safetensors` (the weights as in an export), `optimizer.safetensors` (`m.NAME` and `v.NAME` for
each trained weight, `m.NAME` alone if Muon updates it) and `state.json`; none is a pickle. If several processes write,
each writes files of its own with whole tensors, such as `model-00003-of-00008.safetensors`; processes that have parts
of tensors only write these, and the first one joins them. Nothing depends on the number of processes or on the
framework, so a run can resume with another number of processes, other options, or on another backend.
"""

from __future__ import annotations

import heapq
import math
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import InputError, MachineError
from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.retry import retry_transient
from jprep.io.safetensors_file import Floats, Shape, TensorFiles, write_tensors
from jprep.io.shared.network_files import wait_for_file
from jprep.io.tensor_pieces import TensorPieces
from jprep.train.optimization.muon import uses_muon
from jprep.train.optimization.optimizer import OptimizerKind
from jprep.typed_json import decode_json

WEIGHTS, OPTIMIZER, STATE = "model", "optimizer", "state.json"
AVERAGES = ("m", "v")
"""AdamW's running averages: of the gradient, and of its square. Muon's momentum has the name of the first."""

_REPAIR = "repair the file system, then run the same command again"

Blocks = Callable[[str], Iterable[Floats]]
"""Yields a tensor's numbers by its name, in row-major order."""


class TrainProgress(msgspec.Struct, frozen=True):
    """The rest of the training state.

    Attributes:
        updates: the optimizer's update count; less than the step if fp16 skipped updates.
        scale: the loss scale; 1 except in fp16.
        good: steps since the loss scale changed or a gradient was not finite.
    """

    updates: int
    scale: float = 1.0
    good: int = 0


def tensor_file_name(kind: str, part: int = 0, parts: int = 1) -> str:
    """Return the name of the file of `WEIGHTS` or `OPTIMIZER` that one of `parts` processes writes."""
    return f"{kind}.safetensors" if parts == 1 else f"{kind}-{part:05d}-of-{parts:05d}.safetensors"


def average_shapes(
    shapes: Mapping[str, Shape], trained: Iterable[str], kind: OptimizerKind = "adamw"
) -> dict[str, Shape]:
    """Return the names and shapes of the tensors of `OPTIMIZER`: two for each trained weight, `m` alone with Muon."""
    own = list(trained)
    both = [name for name in own if kind != "muon" or not uses_muon(name, shapes[name])]
    return {f"{mark}.{name}": shapes[name] for mark, names in zip(AVERAGES, (own, both), strict=True) for name in names}


def tensors_of_part(shapes: Mapping[str, Shape], part: int, parts: int) -> dict[str, Shape]:
    """Return the tensors that one of several processes writes; all processes write about as many numbers."""
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
    """Write one process's tensors of `WEIGHTS` or `OPTIMIZER`.

    Args:
        folder: the checkpoint's folder.
        kind: `WEIGHTS` or `OPTIMIZER`.
        shapes: the names and shapes of the tensors to write.
        blocks: yields a tensor's numbers by its name.
        part: the number of this process among those that write.
        parts: the number of processes that write.

    Raises:
        OSError: the disk is full or not writable.
    """
    write_tensors(folder / tensor_file_name(kind, part, parts), shapes, blocks)


def write_pieces(
    folder: Path,
    kind: str,
    shapes: Mapping[str, Shape],
    pieces: Mapping[str, Floats],
    part: int,
    parts: int,
    sizes: Mapping[str, Shape] | None = None,
) -> None:
    """Write one process's pieces of tensors into a file that `join_pieces` will read.

    Each process of `parts` writes a file of each kind, also without any piece. The first also writes the shapes, which
    tell a tensor that no process has written.

    Args:
        folder: the checkpoint's folder.
        kind: `WEIGHTS` or `OPTIMIZER`.
        shapes: the names and shapes of all tensors; each number is in a piece of one process.
        pieces: the pieces of this process by their keys.
        part: the number of this process.
        parts: the number of processes.
        sizes: the shapes of the pieces, if they are known; else each piece is read twice.

    Raises:
        OSError: the disk is full or not writable.
    """
    sizes = sizes or {key: numbers.shape for key, numbers in pieces.items()}
    write_tensors(_pieces_files(folder, kind, parts)[part], sizes, lambda key: [pieces[key]])
    if part == 0:
        _shapes_file(folder, kind).write_bytes(msgspec.json.encode(shapes))


def join_pieces(folder: Path, parts: int) -> None:
    """Replace pieces of tensors by the files of `write_part`, a block at a time; without pieces, do nothing.

    Args:
        folder: the checkpoint's folder, which all processes have written to.
        parts: the number of processes.

    Raises:
        MachineError: a file of another host does not appear.
        JprepError: the pieces are not those of all tensors, each number once.
        OSError: the disk is full or not writable.
    """
    if not _shapes_file(folder, WEIGHTS).exists():
        return
    kinds = (WEIGHTS, OPTIMIZER)
    weights, averages = (_open_pieces(folder, kind, parts) for kind in kinds)
    _write_joined(folder, weights, averages, parts)
    failpoint("run.joined")
    for path in (path for kind in kinds for path in [_shapes_file(folder, kind), *_pieces_files(folder, kind, parts)]):
        path.unlink()


def _pieces_files(folder: Path, kind: str, parts: int) -> list[Path]:
    """Return the files of pieces, in the order of the processes that write them."""
    return [folder / f"pieces-{tensor_file_name(kind, part, parts)}" for part in range(parts)]


def _shapes_file(folder: Path, kind: str) -> Path:
    return folder / f"pieces-{kind}.json"


def _open_pieces(folder: Path, kind: str, parts: int) -> TensorPieces:
    """Wait for the pieces of all processes, and check that they are the tensors."""
    paths = _pieces_files(folder, kind, parts)
    for path in paths:
        if not wait_for_file(path):
            raise MachineError("a file that another process has written does not appear", where=str(path), fix=_REPAIR)
    return TensorPieces(paths, decode_json(_shapes_file(folder, kind).read_bytes(), dict[str, Shape]))


def _write_joined(folder: Path, weights: TensorPieces, averages: TensorPieces, parts: int) -> None:
    """Write the files that as many processes write that have whole tensors."""
    for part in range(parts):
        own = tensors_of_part(weights.shapes, part, parts)
        own_averages = {name: shape for name, shape in averages.shapes.items() if name.partition(".")[2] in own}
        write_part(folder, WEIGHTS, own, weights.blocks, part, parts)
        write_part(folder, OPTIMIZER, own_averages, averages.blocks, part, parts)


class ShapedTensors(Mapping[str, Floats]):
    """Tensors that are read when they are asked for, and whose shapes are known before."""

    @property
    @abstractmethod
    def shapes(self) -> Mapping[str, Shape]:
        """The shapes by key."""


class CheckpointPart(NamedTuple):
    """The part of a checkpoint that one process writes.

    Attributes:
        weights: weights by transformers' names, or pieces of them by their keys.
        averages: the optimizer's averages as `m.NAME` and `v.NAME`, or pieces of them.
        shapes: shapes of all weights of the checkpoint, and of all averages.
        progress: number of updates and the loss scale.
        rank: number of this process.
        world: number of processes.
        divided: whether these are pieces.
    """

    weights: Mapping[str, Floats]
    averages: Mapping[str, Floats]
    shapes: tuple[dict[str, Shape], dict[str, Shape]]
    progress: TrainProgress
    rank: int = 0
    world: int = 1
    divided: bool = False

    def write(self, folder: Path) -> None:
        """Write the files of this process.

        Raises:
            OSError: the disk is full or not writable.
        """
        for kind, tensors, shapes in zip((WEIGHTS, OPTIMIZER), self[:2], self.shapes, strict=True):
            if self.divided:
                sizes = tensors.shapes if isinstance(tensors, ShapedTensors) else None
                write_pieces(folder, kind, shapes, tensors, self.rank, self.world, sizes)
            else:
                own = {name: shapes[name] for name in tensors}
                write_part(folder, kind, own, blocks_of(tensors), self.rank, self.world)
        if not self.rank:
            write_progress(folder, self.progress)


def blocks_of(tensors: Mapping[str, Floats]) -> Blocks:
    """Return what yields each tensor whole."""
    return lambda name: [tensors[name]]


def write_from_first(folder: Path, kind: str, shapes: Mapping[str, Shape], blocks: Blocks, *, first: bool) -> None:
    """Write all tensors from the first process, one tensor at a time.

    The other processes iterate over the blocks too: every host of an XLA program has to run the same computations.

    Args:
        folder: the checkpoint's folder.
        kind: `WEIGHTS` or `OPTIMIZER`.
        shapes: the names and shapes of the tensors.
        blocks: yields a tensor's numbers by its name.
        first: whether this is the first process.

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
    """Write `state.json`, from the first process only."""
    (folder / STATE).write_bytes(msgspec.json.encode(progress))


class CheckpointReader:
    """Reads a checkpoint whose hashes were checked.

    Args:
        folder: the checkpoint's folder.

    Attributes:
        weights: the weights by transformers' names.

    Raises:
        InputError: it has no weights: another program wrote it.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.weights = TensorFiles(_files(folder, WEIGHTS))
        if not self.weights:
            fix = "use a checkpoint of one of jprep's backends"
            raise InputError(f"there is no {tensor_file_name(WEIGHTS)} in this checkpoint", where=str(folder), fix=fix)

    @cached_property
    def averages(self) -> TensorFiles:
        """The optimizer's running averages, by `m.NAME` and `v.NAME`."""
        return TensorFiles(_files(self._folder, OPTIMIZER))

    @cached_property
    def progress(self) -> TrainProgress:
        """The rest of the training state."""
        path = self._folder / STATE
        return decode_json(retry_transient(path.read_bytes, path, _REPAIR), TrainProgress)

    def export(self, folder: Path) -> None:
        """Write `model.safetensors` with all weights, a block at a time.

        Raises:
            MachineError: the disk is full or not writable.
        """
        shapes = {name: self.weights.entries[name][1].shape for name in sorted(self.weights)}
        try:
            write_part(folder, WEIGHTS, shapes, self.weights.blocks)
        except OSError as error:
            raise write_error(error, folder) from error


def _files(folder: Path, kind: str) -> list[Path]:
    """Return all files of a kind, written by one process or several."""
    paths = retry_transient(lambda: list(folder.iterdir()), folder, _REPAIR)
    pattern = re.compile(rf"{kind}(-\d+-of-\d+)?\.safetensors")
    return sorted(path for path in paths if pattern.fullmatch(path.name))
