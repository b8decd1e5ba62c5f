"""The content of a checkpoint does not depend on the number of processes that wrote it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import InputError
from jprep.io.safetensors_file import Floats, Shape
from jprep.train.run.checkpoint_files import (
    OPTIMIZER,
    WEIGHTS,
    CheckpointReader,
    TrainProgress,
    average_shapes,
    tensors_of_part,
    write_from_first,
    write_part,
    write_progress,
)

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
