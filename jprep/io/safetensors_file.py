"""Read and write safetensors files a block at a time, without a framework."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.errors import ConfigError, InputError
from jprep.io.retry import retry_transient

Floats = npt.NDArray[np.float32]
Shape = tuple[int, ...]

DTYPE_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}
"""Supported dtypes → bytes per element."""

_BLOCK = 1 << 17  # bytes
_LONGEST_HEADER = 100_000_000  # the limit of the safetensors library


class TensorEntry(NamedTuple):
    """The entry of a tensor in a safetensors file.

    Attributes:
        dtype: the dtype as written in the file, e.g. `F32`.
        shape: the shape.
        start: the offset of its first byte in the file.
        bytes: its size in bytes.
    """

    dtype: str
    shape: tuple[int, ...]
    start: int
    bytes: int


def read_header(path: Path) -> dict[str, TensorEntry]:
    """Read the header of a safetensors file, and return its tensors by name.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
        InputError: it is not a safetensors file, or is damaged.
    """

    def start() -> tuple[int, int, bytes]:
        with path.open("rb") as file:
            total, size = path.stat().st_size, int.from_bytes(file.read(8), "little")
            return total, size, file.read(size) if 8 + size <= total and size <= _LONGEST_HEADER else b""

    try:
        total, size, header = retry_transient(start, path, "repair the file system, then run the same command again")
    except OSError as error:
        fix = "give a .safetensors file"
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=str(path), fix=fix) from error
    try:
        listed = msgspec.json.decode(header, type=dict[str, dict[str, Any]])
        entries = {name: _entry(about, 8 + size) for name, about in listed.items() if name != "__metadata__"}
    except (msgspec.DecodeError, KeyError, TypeError, ValueError) as error:
        what = "this is not a safetensors file, or it is damaged"
        raise InputError(what, where=str(path), fix="download it again") from error
    for name, entry in entries.items():
        expected = DTYPE_BYTES.get(entry.dtype, 0) * math.prod(entry.shape) or entry.bytes
        if entry.start + entry.bytes > total or entry.bytes != expected:
            fix = "download the file again"
            raise InputError(f"the tensor {name!r} is not within the file", where=str(path), fix=fix)
    return entries


def read_blocks(path: Path, name: str, entry: TensorEntry) -> Iterator[Floats]:
    """Yield a tensor's elements in fp32 and row-major order, a block at a time.

    Args:
        path: the file.
        name: the tensor's name, for errors.
        entry: its entry, from `read_header`, with a dtype in `DTYPE_BYTES`.

    Raises:
        InputError: an element is not finite in fp32, or the file is truncated.
    """
    with path.open("rb") as file:
        file.seek(entry.start)
        left = entry.bytes
        while left:
            block = _floats(_exactly(file, min(left, _BLOCK), path), entry.dtype)
            if not np.isfinite(block).all():
                fix = "use a checkpoint from before its training failed"
                raise InputError(f"the tensor {name!r} contains NaN or infinity", where=str(path), fix=fix)
            yield block
            left -= min(left, _BLOCK)


def write_tensors(
    path: Path, shapes: Mapping[str, Shape], blocks: Callable[[str], Iterable[Floats]], dtype: str = "F32"
) -> None:
    """Write tensors in the order of `shapes`, a block at a time.

    Args:
        path: the file to write.
        shapes: the tensors' names and shapes.
        blocks: yields a tensor's elements by its name, in row-major order.
        dtype: `F32`, or `F16` or `BF16` to round to that dtype.

    Raises:
        InputError: an element is too large for the dtype.
        OSError: the disk is full or not writable.
    """
    with path.open("wb") as file:
        file.write(_header(shapes, dtype))
        for name in shapes:
            for block in blocks(name):
                file.write(_rounded(np.ascontiguousarray(block, "<f4"), dtype, name).data)


class TensorFiles(Mapping[str, Floats]):
    """The tensors of one or several fp32 files by name, memory-mapped; changes to the arrays are not written.

    Args:
        paths: safetensors files with distinct tensor names.

    Attributes:
        entries: the file and the entry of each tensor.

    Raises:
        ConfigError: a file cannot be read.
        InputError: it is not a safetensors file, or is damaged.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self.entries = {name: (path, entry) for path in paths for name, entry in read_header(path).items()}

    def __getitem__(self, name: str) -> Floats:
        path, entry = self.entries[name]
        mapped: np.memmap[Any, Any] = np.memmap(path, "<f4", "c", entry.start, entry.shape)
        return mapped

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def blocks(self, name: str) -> Iterator[Floats]:
        """Yield a tensor's elements a block at a time, see `read_blocks`."""
        path, entry = self.entries[name]
        return read_blocks(path, name, entry)


def _rounded(block: Floats, dtype: str, name: str) -> npt.NDArray[Any]:
    """Round to the nearest value of a dtype, ties to even."""
    if dtype == "F32":
        return block
    if dtype == "BF16":
        words = block.view(np.uint32).astype(np.uint64)
        rounded: npt.NDArray[Any] = ((words + 0x7FFF + ((words >> 16) & 1)) >> 16).astype("<u2")
        fits = ((rounded & 0x7FFF) < 0x7F80).all()
    else:
        with np.errstate(over="ignore"):
            rounded = block.astype("<f2")
        fits = np.isfinite(rounded).all()
    if not fits:
        raise InputError(f"an element of {name!r} is too large for {dtype}", fix="use fp32, or bf16 instead of fp16")
    return rounded


def _exactly(file: IO[bytes], size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise InputError("the file is truncated", where=str(path), fix="download it again")
    return data


def _floats(data: bytes, dtype: str) -> Floats:
    if dtype == "BF16":
        widened: Floats = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return widened
    with np.errstate(over="ignore"):  # values too large for fp32 become infinite, which is an error later
        numbers: Floats = np.frombuffer(data, f"<f{DTYPE_BYTES[dtype]}").astype(np.float32)
    return numbers


def _entry(about: dict[str, Any], data: int) -> TensorEntry:
    start, end = map(int, about["data_offsets"])
    shape = tuple(map(int, about["shape"]))
    if not 0 <= start <= end or any(size < 0 for size in shape):
        raise ValueError("a negative size")
    return TensorEntry(str(about["dtype"]), shape, data + start, end - start)


def _header(shapes: Mapping[str, Shape], dtype: str) -> bytes:
    listed: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name, shape in shapes.items():
        start, end = end, end + DTYPE_BYTES[dtype] * math.prod(shape)
        listed[name] = {"dtype": dtype, "shape": shape, "data_offsets": (start, end)}
    header = msgspec.json.encode(listed)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header
