"""Parts of a model's arrays, read from the tensors of a file."""

from __future__ import annotations

import math
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.io.safetensors_file import TensorFiles, write_tensors
from jprep_flax.models.stored_array import StoredArray


@given(st.data(), st.integers(1, 4), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.integers(0, 3))
def test_parts_are_those_of_the_stacked_and_padded_tensors(
    data: st.DataObject, layers: int, inner: list[int], padding: int
) -> None:
    tensors = [np.arange(1, 1 + math.prod(inner), dtype=np.float32) + 1000 * layer for layer in range(layers)]
    shape = (inner[0] + padding, *inner[1:])
    whole = np.stack([np.pad(each.reshape(inner), [(0, padding)] + [(0, 0)] * (len(inner) - 1)) for each in tensors])
    if layers == 1:
        whole = whole[0]
    else:
        shape = (layers, *shape)
    ends = [sorted(data.draw(st.tuples(st.integers(0, size), st.integers(0, size)))) for size in shape]
    slices = tuple(slice(first or None, last) for first, last in ends)
    stored = StoredArray(tensors, shape)
    assert (stored.part(slices) == whole[slices]).all() and stored.part(slices).shape == whole[slices].shape
    assert (stored.whole() == whole).all()


def test_single_layers_and_scalars_keep_their_shape() -> None:
    assert StoredArray([np.ones((2, 3), np.float32)], (1, 6)).whole().shape == (1, 6)
    assert StoredArray([np.full((1,), 2, np.float32)], ()).whole() == np.float32(2)
    assert StoredArray([np.ones(1, np.float32)] * 2, (2,)).part((slice(1, 2),)).tolist() == [1]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_part_takes_the_memory_of_that_part(axis: int, tmp_path: Path) -> None:
    shapes = {str(layer): (256, 512) for layer in range(16)}
    path = tmp_path / "weights.safetensors"
    write_tensors(path, shapes, lambda name: [np.full((256, 512), float(name), np.float32)])
    files, slices = TensorFiles([path]), [slice(None)] * 3
    slices[axis] = slice(0, (16, 256, 512)[axis] // 8)
    stored = StoredArray([files[name] for name in shapes], (16, 256, 512))
    tracemalloc.start()
    part = stored.part(tuple(slices))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert part.nbytes == 16 * 256 * 512 * 4 // 8
    assert peak < 1.1 * part.nbytes
