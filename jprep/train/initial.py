"""Initial weights: the same bits on every machine, or those that a file gives. `docs/training.md` has the formulas."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.dataset.counter_bits import Words, bits, key
from jprep.errors import ConfigError, InputError
from jprep.io.atomic import atomic
from jprep.plugins.refs import nearest
from jprep.train.models.presets import FAMILIES, Config
from jprep.train.models.weights import BASES, Tensor, Tensors, parameters

Floats = npt.NDArray[np.float32]

MEAN = 12 * 65535 // 2
"""Of the sum of twelve 16-bit integers. Its variance is 2**32 - 1, so 65,536 is one standard deviation."""

_BLOCK = 1 << 14  # numbers made at a time: what they are made of stays in a core's cache
_LONGEST_HEADER = 100_000_000  # as the library safetensors has it
_LANES = np.uint64(0x0000FFFF0000FFFF)
_S16, _S32, _LOW = np.uint64(16), np.uint64(32), np.uint64(0xFFFFFFFF)
_BYTES = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2}

_TIED = ("lm_head.weight", "lm_head.decoder.weight", "lm_head.decoder.bias", "cls.predictions.decoder.weight",
         "cls.predictions.decoder.bias", "generator_lm_head.weight")  # fmt: skip
_OTHERS = re.compile(
    r"(.*\.)?(attn\.(masked_)?bias|position_ids|rotary_emb\.inv_freq)"  # no weights: constants that old files hold
    r"|cls\.seq_relationship\..*|discriminator_predictions\..*"  # heads of tasks that jprep does not have
)


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


def write_initial(config: Config, task: str, seed: int, path: Path, given: Path | None = None) -> None:
    """Write the weights that a run starts from, as safetensors in fp32, whole or not at all.

    Memory does not grow with the model.

    Args:
        config: from `model_config`.
        task: the job's.
        seed: the job's.
        path: where to.
        given: a safetensors file with weights to start from. What it lacks of the head of `classify` and `regress` is
            made from the seed, and heads of other tasks in it are left out.

    Raises:
        ConfigError: there is no such file, or it is of another model.
        InputError: it is damaged, or holds a number that is none.
        MachineError: the disk is full or not writable.
    """
    tensors = parameters(config, task)
    sources = check_given(config, task, given) if given else {}
    with atomic(path) as temporary, temporary.open("wb") as file:
        file.write(_header(tensors))
        for name in sorted(tensors):
            made = _initial(seed, name, tensors[name])
            for block in _read(given, name, sources[name]) if given and name in sources else made:
                file.write(block.astype("<f4", copy=False).data)


def check_given(config: Config, task: str, path: Path) -> dict[str, Entry]:
    """Check that a file's weights are those of a model; only its header is read.

    Returns:
        The model's names, and where the file has them; without what is made from the seed.

    Raises:
        ConfigError: there is no such file, a tensor is missing, too many or of another shape; it is named.
        InputError: the file is damaged.
    """
    found, tensors, where = read_header(path), parameters(config, task), str(path)
    base = BASES[config["model_type"]]
    names = {name: name if name in found else name.removeprefix(base) for name in tensors}
    for name, tensor in tensors.items():
        if names[name] not in found and not tensor.head:
            raise ConfigError(f"there is no tensor {name!r}", where=where, fix=nearest(name, found))
        entry = found.get(names[name])
        if entry and entry.shape != tensor.shape:
            what = f"the tensor {name!r} is {_spelt(entry.shape)}, and the model's {_spelt(tensor.shape)}"
            fix = "set train.model.config to the config.json beside the file; a head for other labels is left out of it"
            raise ConfigError(what, where=where, fix=fix)
        if entry and entry.dtype not in _BYTES:
            what = f"the tensor {name!r} is of type {entry.dtype}"
            raise ConfigError(what, where=where, fix=f"save it as one of {', '.join(_BYTES)}")
    _refuse_strangers(config, found.keys() - set(names.values()), where)
    return {name: found[other] for name, other in names.items() if other in found}


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
        expected = _BYTES.get(entry.dtype, 0) * Tensor(entry.shape).size or entry.bytes
        if entry.start + entry.bytes > total or entry.bytes != expected:
            fix = "fetch the file again"
            raise InputError(f"the tensor {name!r} does not lie in the file", where=str(path), fix=fix)
    return entries


def normal(keys: Words, start: int, stop: int, std: float) -> Floats:
    """Numbers `start` to below `stop` of a tensor: normal, all but the last tails, and the same bits everywhere.

    Each is `std * (s - MEAN) / 65536` for the sum `s` of the twelve 16-bit parts of three random words: one product
    in doubles, rounded once to fp32. None is further out than six standard deviations.

    Args:
        keys: the tensor's key, (1,).
        start, stop: places in the tensor, its last dimension running fastest.
        std: the standard deviation.
    """
    words = bits(keys, np.arange(3 * start, 3 * stop, dtype=np.uint64))
    pairs = (words >> _S16) & _LANES
    pairs += words & _LANES  # two sums of two in each word
    sums = pairs[0::3] + pairs[1::3] + pairs[2::3]
    sums = (sums + (sums >> _S32)) & _LOW
    deviates = (sums.astype(np.float64) - MEAN) / 65536.0
    numbers: Floats = (std * deviates).astype(np.float32)
    return numbers


def _initial(seed: int, name: str, tensor: Tensor) -> Iterator[Floats]:
    keys = key(seed, name)
    for start in range(0, tensor.size, _BLOCK):
        stop = min(start + _BLOCK, tensor.size)
        if tensor.kind != "normal":
            yield np.full(stop - start, tensor.kind == "ones", np.float32)
            continue
        block = normal(keys, start, stop, tensor.std)
        if tensor.zero_row >= 0:
            width = tensor.shape[1]
            first = tensor.zero_row * width - start
            block[max(first, 0) : max(first + width, 0)] = 0
        yield block


def _read(path: Path, name: str, entry: Entry) -> Iterator[Floats]:
    with path.open("rb") as file:
        file.seek(entry.start)
        left = entry.bytes
        while left:
            block = _floats(_exactly(file, min(left, _BLOCK * 8), path), entry.dtype)
            if not np.isfinite(block).all():
                fix = "take a checkpoint from before its training failed"
                raise InputError(f"the tensor {name!r} holds a number that is none", where=str(path), fix=fix)
            yield block
            left -= min(left, _BLOCK * 8)


def _exactly(file: IO[bytes], size: int, path: Path) -> bytes:
    data = file.read(size)
    if len(data) < size:
        raise InputError("the file ends too early", where=str(path), fix="fetch it again")
    return data


def _floats(data: bytes, dtype: str) -> Floats:
    if dtype == "BF16":
        widened: Floats = (np.frombuffer(data, "<u2").astype(np.uint32) << 16).view(np.float32)
        return widened
    with np.errstate(over="ignore"):  # too large for fp32: infinite, which is refused
        numbers: Floats = np.frombuffer(data, f"<f{_BYTES[dtype]}").astype(np.float32)
    return numbers


def _entry(about: dict[str, Any], data: int) -> Entry:
    start, end = map(int, about["data_offsets"])
    shape = tuple(map(int, about["shape"]))
    if not 0 <= start <= end or any(size < 0 for size in shape):
        raise ValueError("a negative size")
    return Entry(str(about["dtype"]), shape, data + start, end - start)


def _header(tensors: Tensors) -> bytes:
    listed: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    end = 0
    for name in sorted(tensors):
        start, end = end, end + 4 * tensors[name].size
        listed[name] = {"dtype": "F32", "shape": tensors[name].shape, "data_offsets": (start, end)}
    header = msgspec.json.encode(listed)
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header


def _refuse_strangers(config: Config, left: set[str], where: str) -> None:
    base, whole = BASES[config["model_type"]], {"id2label": ("",)}
    known = {name for task in FAMILIES[config["model_type"]].classes for name in parameters(config | whole, task)}
    known |= {name.removeprefix(base) for name in known} | set(_TIED)
    for name in sorted(left - known):
        if not _OTHERS.fullmatch(name):
            raise ConfigError(f"the model has no tensor {name!r}", where=where, fix=nearest(name, known))


def _spelt(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"
