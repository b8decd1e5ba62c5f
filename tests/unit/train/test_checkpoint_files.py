"""The content of a checkpoint does not depend on the number of processes that wrote it."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import InputError, JprepError, MachineError
from jprep.io import tensor_pieces
from jprep.io.safetensors_file import Floats, Shape, write_tensors
from jprep.io.tensor_pieces import Piece, TensorPieces
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    join_pieces,
    tensors_of_part,
    write_from_first,
    write_part,
    write_pieces,
    write_progress,
)
from jprep.train.run.checkpoints import CheckpointStore

SHAPES: dict[str, Shape] = {"b": (7,), "a": (5, 3), "c": (2, 2, 2), "d": ()}
TENSORS = {name: np.random.default_rng(7).standard_normal(shape).astype(np.float32) for name, shape in SHAPES.items()}


def saved(folder: Path, parts: int) -> Path:
    folder.mkdir()
    for kind, shapes in ((WEIGHTS, SHAPES), (OPTIMIZER, average_shapes(SHAPES, ["a", "b"]))):
        for part in range(parts):
            own = tensors_of_part(shapes, part, parts)
            write_part(folder, kind, own, lambda name: [TENSORS[name.rpartition(".")[2]]], part, parts)
    write_progress(folder, TrainProgress(3, 2.0, 1))
    return folder


@pytest.mark.parametrize("parts", [1, 3, 9])
def test_any_number_of_writers_saves_the_same(tmp_path: Path, parts: int) -> None:
    found = CheckpointReader(saved(tmp_path / "one", parts))
    assert set(found.weights) == set(SHAPES)
    assert all(np.array_equal(found.weights[name], TENSORS[name]) for name in SHAPES)
    assert sorted(found.averages) == ["m.a", "m.b", "v.a", "v.b"]
    assert np.array_equal(found.averages["v.a"], TENSORS["a"])
    assert found.progress == TrainProgress(3, 2.0, 1)


def test_an_export_does_not_depend_on_the_number_of_writers(tmp_path: Path) -> None:
    files = []
    for parts in (1, 2):
        folder = tmp_path / f"export-{parts}"
        folder.mkdir()
        CheckpointReader(saved(tmp_path / str(parts), parts)).export(folder)
        files.append((folder / "model.safetensors").read_bytes())
    assert files[0] == files[1]


def test_changes_to_read_arrays_are_not_written(tmp_path: Path) -> None:
    folder = saved(tmp_path / "one", 1)
    before = (folder / "model.safetensors").read_bytes()
    CheckpointReader(folder).weights["a"][:] = 0
    assert (folder / "model.safetensors").read_bytes() == before


def test_another_program_s_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no model\.safetensors"):
        CheckpointReader(tmp_path)


@pytest.mark.parametrize("first", [True, False])
def test_the_other_processes_read_each_tensor_that_the_first_writes(first: bool, tmp_path: Path) -> None:
    read = []

    def blocks(name: str) -> Iterator[Floats]:
        yield TENSORS[name]
        read.append(name)

    write_from_first(tmp_path, WEIGHTS, SHAPES, blocks, first=first)
    assert read == list(SHAPES), "each once, in the same order on all: else they wait for each other for ever"
    assert [path.name for path in tmp_path.iterdir()] == (["model.safetensors"] if first else [])


SHAPE = st.lists(st.integers(1, 50), max_size=3).map(tuple)


@given(st.dictionaries(st.text(min_size=1), SHAPE, max_size=20), st.integers(1, 9))
def test_each_tensor_has_one_writer_and_parts_are_about_equal(shapes: dict[str, Shape], parts: int) -> None:
    shares = [tensors_of_part(shapes, part, parts) for part in range(parts)]
    assert sorted(name for own in shares for name in own) == sorted(shapes)
    sizes = [sum(map(math.prod, own.values())) for own in shares]
    assert max(sizes) - min(sizes) <= max(map(math.prod, shapes.values()), default=0)


VIEWS: dict[str, Shape] = {"b": (7,), "a": (5, 3), "c": (2, 4), "d": (1,)}
"""Shapes along whose axes the tensors of `SHAPES` are divided."""


def pieces_of(name: str, cuts: tuple[int, ...]) -> Iterator[tuple[str, Floats]]:
    """Yield the pieces of a tensor that is cut in two along each axis of its view."""
    key = name.rpartition(".")[2]
    whole = TENSORS[key].reshape(VIEWS[key])
    edges = (sorted({0, cut % size, size}) for cut, size in zip(cuts, whole.shape, strict=False))
    for bounds in itertools.product(*(itertools.pairwise(each) for each in edges)):
        part = whole[tuple(slice(*bound) for bound in bounds)]
        yield Piece(name, whole.shape, tuple(first for first, _ in bounds)).key, part


def write_divided(folder: Path, parts: int, cuts: tuple[int, ...], writers: Iterator[int]) -> None:
    averages = {f"{mark}.{name}": SHAPES[name] for mark in "mv" for name in SHAPES}
    for kind, shapes in ((WEIGHTS, SHAPES), (OPTIMIZER, averages)):
        own: list[dict[str, Floats]] = [{} for _ in range(parts)]
        for name in shapes:
            for key, numbers in pieces_of(name, cuts):
                own[next(writers) % parts][key] = numbers
        for part, pieces in enumerate(own):
            write_pieces(folder, kind, shapes, pieces, part, parts)


@given(
    parts=st.integers(2, 4),
    cuts=st.tuples(st.integers(0, 8), st.integers(0, 8)),
    writers=st.lists(st.integers(0, 3), min_size=1, max_size=7),
    block=st.sampled_from([1, 6, 1 << 20]),
)
def test_joined_pieces_are_the_files_of_whole_tensors(
    parts: int, cuts: tuple[int, int], writers: list[int], block: int
) -> None:
    """They do not depend on how tensors are divided, or who writes which piece; memory is that of a block."""
    with tempfile.TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tensor_pieces, "_BLOCK", block)
        whole, divided = Path(name, "whole"), Path(name, "divided")
        whole.mkdir()
        divided.mkdir()
        for part in range(parts):
            own = tensors_of_part(dict(sorted(SHAPES.items())), part, parts)
            for kind, shapes in ((WEIGHTS, own), (OPTIMIZER, average_shapes(own, own))):
                write_part(whole, kind, shapes, lambda name: [TENSORS[name.rpartition(".")[2]]], part, parts)
        write_divided(divided, parts, cuts, itertools.cycle(writers))
        join_pieces(divided, parts)
        files = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (whole, divided)]
        assert files[0] == files[1]


def test_the_pieces_of_a_single_process_are_joined_too(tmp_path: Path) -> None:
    store = CheckpointStore(tmp_path, "job", 1)
    with store.saving(3) as folder:
        for kind in (WEIGHTS, OPTIMIZER):
            write_pieces(folder, kind, {"b": SHAPES["b"]}, dict(pieces_of("b", (1,))), 0, 1)
    [checkpoint] = store.committed()
    assert sorted(checkpoint.commit.files) == ["model.safetensors", "optimizer.safetensors"]


def test_blocks_of_a_joined_tensor_are_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensor_pieces, "_BLOCK", 6)
    path, pieces = tmp_path / "pieces.safetensors", dict(pieces_of("a", (2, 1)))
    write_tensors(path, {key: each.shape for key, each in pieces.items()}, lambda key: [pieces[key]])
    blocks = list(TensorPieces([path], {"a": SHAPES["a"]}).blocks("a"))
    assert [block.shape for block in blocks] == [(2, 3), (2, 3), (1, 3)]
    assert np.array_equal(np.concatenate(blocks), TENSORS["a"])


def test_a_missing_piece_is_an_error(tmp_path: Path) -> None:
    write_divided(tmp_path, 2, (1, 1), itertools.cycle([0, 1]))
    write_pieces(tmp_path, WEIGHTS, SHAPES, {}, 1, 2)
    with pytest.raises(JprepError, match="the pieces of 'a' have"):
        join_pieces(tmp_path, 2)
    assert not list(tmp_path.glob("model-*")), "nothing is written before all pieces are found"


@pytest.mark.parametrize(
    ("shapes", "problem"),
    [
        ({**SHAPES, "e": (4,)}, "'e' have 0 numbers, and the tensor has 4"),
        ({"a": SHAPES["a"]}, "'[bcd]' belong to no tensor"),
    ],
)
def test_the_pieces_are_those_of_all_tensors(shapes: dict[str, Shape], problem: str, tmp_path: Path) -> None:
    write_divided(tmp_path, 2, (1, 1), itertools.repeat(1))
    write_pieces(tmp_path, WEIGHTS, shapes, {}, 0, 2)
    with pytest.raises(JprepError, match=f"the pieces of {problem}"):
        join_pieces(tmp_path, 2)
    assert not list(tmp_path.glob("model-*"))


Boxes = list[tuple[Shape, Shape]]
"""Starts and shapes of the pieces of a tensor of (4, 6)."""


@pytest.mark.parametrize(
    "boxes",
    [
        [((0, 0), (2, 6)), ((1, 0), (2, 6))],
        [((0, 0), (2, 6)), ((0, 0), (2, 6))],
        [((0, 0), (2, 6)), ((3, 0), (2, 6))],
        [((0, 0), (3, 4)), ((2, 2), (2, 4)), ((0, 4), (2, 2))],
    ],
    ids=["overlapping", "twice", "outside", "overlapping in a corner"],
)
def test_as_many_numbers_with_a_hole_are_an_error(boxes: Boxes, tmp_path: Path) -> None:
    with pytest.raises(JprepError, match="the pieces of 'w' overlap"):
        open_pieces(tmp_path, boxes)


def test_pieces_need_not_be_a_grid(tmp_path: Path) -> None:
    """Five pieces around the one in the middle, as the bricks of a wall."""
    boxes: Boxes = [((0, 0), (1, 4)), ((0, 4), (3, 2)), ((3, 2), (1, 4)), ((1, 0), (3, 2)), ((1, 2), (2, 2))]
    assert np.array_equal(np.concatenate(list(open_pieces(tmp_path, boxes).blocks("w"))), np.ones((4, 6)))


def open_pieces(folder: Path, boxes: Boxes) -> TensorPieces:
    """Write each piece to a file, and open all as one tensor of ones."""
    paths = [folder / f"{number}.safetensors" for number in range(len(boxes))]
    for path, (start, shape) in zip(paths, boxes, strict=True):
        key = Piece("w", (4, 6), start).key
        write_tensors(path, {key: shape}, lambda key, shape=shape: [np.ones(shape, np.float32)])  # type: ignore[misc]
    return TensorPieces(paths, {"w": (4, 6)})


def test_without_pieces_nothing_is_joined(tmp_path: Path) -> None:
    folder = saved(tmp_path / "three", 3)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    join_pieces(folder, 3)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_file_of_pieces_that_does_not_appear_is_an_error(tmp_path: Path) -> None:
    for kind in (WEIGHTS, OPTIMIZER):
        write_pieces(tmp_path, kind, {}, {}, 0, 2)
    with pytest.raises(MachineError, match="does not appear") as error:
        join_pieces(tmp_path, 2)
    assert error.value.where == str(tmp_path / "pieces-model-00001-of-00002.safetensors")
