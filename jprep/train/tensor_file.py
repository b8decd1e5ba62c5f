"""Files of tensors, in the safetensors format: read and written a block at a time, without a framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.errors import ConfigError, InputError

Floats = npt.NDArray[np.float32]
Shape = tuple[int, ...]

BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Types of numbers, and how many bytes each takes."""

_LONGEST_HEADER = 100_000_000  # as the library safetensors has it


class Entry(NamedTuple):
    """Where a safetensors file holds a tensor.

    Attributes:
        dtype: as the file spells it, e.g. `F32`.
        shape: its dimensions.
        start: the offset of its first byte in the file.
        bytes: how many there are.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    bytes: int


def read_header(path: Path) -> dict[str, Entry]:
    """The tensors of a safetensors file.

    Raises:
        ConfigError: it cannot be read.
        InputError: it is no safetensors, or damaged.
    """
    try:
        with path.open("rb") as file:
            total, size = path.stat().st_size, int.from_bytes(file.read(8), "little")
            header = file.read(size) if 8 + size <= total and size <= _LONGEST_HEADER else b""
    except OSError as error:
        fix = "name a .safetensors file"
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=str(path), fix=fix) from error
    try:
        listed = msgspec.json.decode(header, type=dict[str, dict[str, Any]])
        entries = {name: _entry(about, 8 + size) for name, about in listed.items() if name != "__metadata__"}
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        raise InputError("this is no safetensors file, or damaged", where=str(path), fix="fetch it again") from error
    for name, entry in entries.items():
        expected = BYTES.get(entry.dtype, 0) * math.prod(entry.shape) or entry.bytes
        if entry.start + entry.bytes > total or entry.bytes != expected:
            fix = "fetch the file again"
            raise InputError(f"the tensor {name!r} does not lie in the file", where=str(path), fix=fix)
    return entries


def write_tensors(path: Path, shapes: Mapping[str, Shape], blocks: Callable[[str], Iterable[Floats]]) -> None:
    """Write tensors in fp32, in the order of their names here. Memory is that of a block.

    Args:
        path: where to.
        shapes: each tensor's name and dimensions.
        blocks: gives a tensor's numbers by its name, its last dimension running fastest.

    Raises:
        OSError: the disk is full or not writable.
    """
    with path.open("wb") as file:
        file.write(_header(shapes))
        for name in shapes:
            for block in blocks(name):
                file.write(np.ascontiguousarray(block, "<f4").data)


def _entry(about: dict[str, Any], data: int) -> Entry:
    start, end = map(int, about["data_offsets"])
    shape = tuple(map(int, about["shape"]))
    if not 0 <= start <= end or any(size < 0 for size in shape):
        raise ValueError("a negative size")
    return Entry(str(about["dtype"]), shape, data + start, end - start)


def _header(shapes: Mapping[str, Shape]) -> bytes:
    listed: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + 4 * math.prod(shape)
        listed[name] = {"dtype": "F32", "shape": shape, "data_offsets": (start, end)}
    header = msgspec.json.encode(listed)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header
