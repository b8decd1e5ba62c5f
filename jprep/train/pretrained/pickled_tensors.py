"""Find the tensors of a `pytorch_model.bin` without running code in it.

The file is a pickle that describes tensors, and their bytes. Unpickling is restricted to a handful of names, each bound
to a function here that only records numbers: no class of the file is imported, and PyTorch is not needed. Two layouts
exist: a zip archive (PyTorch 1.6 and later), and a sequence of pickles followed by the bytes.
"""

from __future__ import annotations

import math
import pickle
import zipfile
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import numpy as np

from jprep.errors import ConfigError, InputError
from jprep.io.safetensors_file import DTYPE_BYTES, TensorEntry
from jprep.train.pretrained.stored_tensors import StoredTensor

_DTYPES = {
    "DoubleStorage": "F64", "FloatStorage": "F32", "HalfStorage": "F16", "BFloat16Storage": "BF16",
    "LongStorage": "I64", "IntStorage": "I32", "ShortStorage": "I16", "CharStorage": "I8", "ByteStorage": "U8",
    "BoolStorage": "BOOL",
}  # fmt: skip
_SIZES = {"I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1} | DTYPE_BYTES

Found = TypeVar("Found")

_MAGIC = 0x1950A86A20F9469CFC6C
_NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I16": "<i2"}
_MAX_PICKLE = 1 << 26  # bytes: about a million tensors
_LOCAL_HEADER = 30  # bytes of a zip member's header before its name
_AGAIN = 'save it with transformers: AutoModel….from_pretrained(FOLDER).save_pretrained("NEW") writes model.safetensors'


class _Storage(NamedTuple):
    """The bytes that tensors share."""

    key: str
    dtype: str
    size: int


class _Tensor(NamedTuple):
    """A tensor of a storage: the offset of its first element, its shape, and its strides in elements."""

    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_pickled_tensors(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a file by name. Only the description is read.

    Raises:
        ConfigError: there is no such file.
        InputError: it is not a file of tensors, is damaged, or refers to anything else than tensors.
    """
    return _read(path, lambda found, starts: _stored(path, _every_tensor(found), starts))


def read_pickled_tensor(path: Path) -> StoredTensor:
    """Return the tensor of a file of a universal checkpoint of DeepSpeed: alone, or as `param` beside plain values.

    Raises:
        ConfigError, InputError: as `read_pickled_tensors`.
    """
    return _read(path, lambda found, starts: _stored(path, _param(found), starts)["param"])


def read_pickled_number(path: Path) -> float:
    """Return the number of a file: plain, or a tensor with one element.

    Raises:
        ConfigError, InputError: as `read_pickled_tensors`.
    """

    def number(found: Any, starts: dict[str, int]) -> float:
        if type(found) in (int, float):
            return float(found)
        dtype, shape, start, _ = _stored(path, {"number": found}, starts)["number"].entry
        if math.prod(shape) != 1:
            raise ValueError(f"{math.prod(shape)} numbers instead of one")
        return float(np.fromfile(path, _NUMBERS[dtype], 1, offset=start)[0])

    return _read(path, number)


def _read(path: Path, use: Callable[[Any, dict[str, int]], Found]) -> Found:
    """Return what `use` makes of a file's description and the offset of each storage's bytes."""
    try:
        return use(*(_read_archive(path) if zipfile.is_zipfile(path) else _read_sequence(path)))
    except OSError as error:
        what = f"cannot be read: {error.strerror or error}"
        raise ConfigError(what, where=str(path), fix="check the path") from error
    except InputError:
        raise
    except Exception as error:  # unpickling can raise anything
        what = f"not a file of PyTorch weights, or damaged: {type(error).__name__}: {error}"
        raise InputError(what, where=str(path), fix=f"download it again; or {_AGAIN}") from error


class _TensorUnpickler(pickle.Unpickler):
    """Unpickles descriptions of tensors, and refuses every name that they do not need."""

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        """Return what a name is bound to."""
        if module == "torch" and name in _DTYPES:
            return _DTYPES[name]
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        bound = _functions().get(f"{module}.{name}")
        if bound is None:
            what = f"it holds more than tensors, and may run code: {module}.{name}"
            raise InputError(what, where=str(self._path), fix=f"if you trust it, {_AGAIN}")
        return bound

    def persistent_load(self, pid: Any) -> _Storage:
        """Return the storage that a tensor refers to."""
        kind, dtype, key, _, size = pid[:5]
        if kind != "storage" or dtype not in _SIZES or not isinstance(size, int) or (len(pid) > 5 and pid[5]):
            raise ValueError(f"an unknown storage {kind!r}")
        return _Storage(str(key), str(dtype), size)


def _functions() -> dict[str, Callable[..., Any]]:
    """Return what tensors are rebuilt by. Each call makes new ones, as a pickle may set attributes of functions."""

    def tensor(storage: Any, offset: Any, shape: Any, strides: Any, *rest: Any) -> _Tensor:
        numbers = [offset, *shape, *strides]
        if not isinstance(storage, _Storage) or any(type(one) is not int or one < 0 for one in numbers):
            raise ValueError("an invalid tensor")
        return _Tensor(storage, offset, tuple(shape), tuple(strides))

    def parameter(data: Any, *rest: Any) -> Any:
        return data

    return {
        "torch._utils._rebuild_tensor_v2": tensor,
        "torch._utils._rebuild_tensor": tensor,
        "torch._utils._rebuild_parameter": parameter,
    }


def _read_archive(path: Path) -> tuple[Any, dict[str, int]]:
    """Return the description in a zip archive, and the offset of each storage's bytes."""
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        members = {name.partition("/")[2]: archive.getinfo(name) for name in archive.namelist()}
        description = members["data.pkl"]
        if description.file_size > _MAX_PICKLE or any(each.compress_type for each in members.values()):
            raise ValueError("it is compressed, or its description is too large")
        order = archive.read(members["byteorder"]) if "byteorder" in members else b"little"
        if order != b"little":
            raise ValueError("its numbers are big-endian")
        with archive.open(description) as data:
            found = _TensorUnpickler(data, path).load()
        starts = {
            name.removeprefix("data/"): _start(file, each) for name, each in members.items() if name[:5] == "data/"
        }
        return found, starts


def _start(file: IO[bytes], member: zipfile.ZipInfo) -> int:
    """Return the offset of a member's bytes in the file."""
    file.seek(member.header_offset)
    header = file.read(_LOCAL_HEADER)
    lengths = int.from_bytes(header[26:28], "little") + int.from_bytes(header[28:30], "little")
    return member.header_offset + _LOCAL_HEADER + lengths


def _read_sequence(path: Path) -> tuple[Any, dict[str, int]]:
    """Return the description in a file of PyTorch before 1.6, and the offset of each storage's bytes."""
    with path.open("rb") as file:

        def load() -> Any:
            return _TensorUnpickler(file, path).load()

        if load() != _MAGIC:
            raise ValueError("unknown layout")
        load()  # the version of the protocol
        if not load().get("little_endian", True):
            raise ValueError("its numbers are big-endian")
        found, keys = load(), load()
        sizes = {each.storage.key: _SIZES[each.storage.dtype] for each in found.values() if isinstance(each, _Tensor)}
        starts: dict[str, int] = {}
        for key in map(str, keys):
            size = int.from_bytes(file.read(8), "little")
            starts[key] = file.tell()
            if key not in sizes:
                raise ValueError(f"the storage {key!r} belongs to no tensor")
            file.seek(size * sizes[key], 1)
        return found, starts


def _every_tensor(found: Any) -> dict[Any, Any]:
    if not isinstance(found, dict):
        raise ValueError("it is not a dictionary of tensors")
    return found


def _param(found: Any) -> dict[Any, Any]:
    return {"param": found.get("param") if isinstance(found, dict) else found}


def _stored(path: Path, found: dict[Any, Any], starts: dict[str, int]) -> dict[str, StoredTensor]:
    total, tensors = path.stat().st_size, {}
    for name, each in found.items():
        if not isinstance(each, _Tensor):
            raise ValueError(f"{name!r} is not a tensor")
        tensors[str(name)] = _tensor(path, each, starts[each.storage.key], total)
    return tensors


def _tensor(path: Path, tensor: _Tensor, start: int, total: int) -> StoredTensor:
    storage, shape, strides = tensor.storage, tensor.shape, tensor.strides
    width, count = _SIZES[storage.dtype], math.prod(shape)
    last = tensor.offset + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True)) if count else 0
    if last >= max(storage.size, 1) or start + storage.size * width > total:
        raise ValueError("a tensor is not within the file")
    begin, row_major = start + tensor.offset * width, _row_major(shape)
    if count <= 1 or all(one == two for size, one, two in zip(shape, strides, row_major, strict=True) if size > 1):
        return StoredTensor(path, TensorEntry(storage.dtype, shape, begin, count * width))
    entry = TensorEntry(storage.dtype, shape, begin, (last - tensor.offset + 1) * width)
    return StoredTensor(path, entry, strides)


def _row_major(shape: tuple[int, ...]) -> list[int]:
    return [math.prod(shape[at + 1 :]) for at in range(len(shape))]
