"""Initial weights: from the seed, bit-identical on every machine, or from a file. See `docs/training.md`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jprep.config import suggest_name
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path
from jprep.io.safetensors_file import DTYPE_BYTES, Floats, TensorEntry, read_blocks, read_header, write_tensors
from jprep.random.counter_bits import UInt64Array, bits, key
from jprep.train.models.electra import GENERATOR
from jprep.train.models.presets import FAMILIES, TransformersConfig
from jprep.train.models.weights import BASE_PREFIXES, TensorSpec, parameters

MEAN = 12 * 65535 // 2
"""The mean of the sum of twelve 16-bit integers. Its variance is 2**32 - 1, so 65,536 is one standard deviation."""

_BLOCK = 1 << 14  # numbers generated at a time, so that intermediate arrays stay in a core's cache
_LANES = np.uint64(0x0000FFFF0000FFFF)
_S16, _S32, _LOW = np.uint64(16), np.uint64(32), np.uint64(0xFFFFFFFF)

_TIED = ("lm_head.weight", "lm_head.decoder.weight", "lm_head.decoder.bias", "cls.predictions.decoder.weight",
         "cls.predictions.decoder.bias", "generator_lm_head.weight")  # fmt: skip
_OTHERS = re.compile(
    r"(.*\.)?(attn\.(masked_)?bias|position_ids|rotary_emb\.inv_freq)"  # constants in older files
    r"|cls\.seq_relationship\..*|discriminator_predictions\..*|generator\..*"  # heads of other tasks
)


def write_initial_weights(
    config: TransformersConfig, task: str, seed: int, path: Path, given: Path | None = None
) -> None:
    """Write the initial weights of a run atomically, as safetensors in fp32. Memory use does not grow with the model.

    Args:
        config: from `model_config`.
        task: the task of the job.
        seed: the seed of the job.
        path: the file to write.
        given: a safetensors file with weights to start from. A head of `classify` or `regress` that it lacks is
            initialized from the seed; heads of other tasks in it are ignored.

    Raises:
        ConfigError: there is no such file, or it is of another model.
        InputError: it is damaged, or contains a NaN or an infinite number.
        MachineError: the disk is full or not writable.
    """
    tensors = parameters(config, task)
    sources = check_init_file(config, task, given) if given else {}

    def blocks(name: str) -> Iterator[Floats]:
        if given and name in sources:
            return read_blocks(given, name, sources[name])
        return _initial(seed, name, tensors[name])

    with atomic_path(path) as temporary:
        write_tensors(temporary, {name: tensors[name].shape for name in sorted(tensors)}, blocks)


def check_init_file(config: TransformersConfig, task: str, path: Path) -> dict[str, TensorEntry]:
    """Check that a file has the weights of a model. Only its header is read.

    Args:
        config: from `model_config`.
        task: the task of the job.
        path: the safetensors file.

    Returns:
        The model's tensor names and their entries in the file, without those to be initialized from the seed.

    Raises:
        ConfigError: there is no such file, or a tensor is missing, unknown or of another shape; the message names it.
        InputError: the file is damaged.
    """
    found, tensors, where = read_header(path), parameters(config, task), str(path)
    base = BASE_PREFIXES[config["model_type"]]
    names = {name: name if name in found else name.removeprefix(base) for name in tensors}
    for name, tensor in tensors.items():
        if names[name] not in found and not tensor.head:
            raise ConfigError(f"there is no tensor {name!r}", where=where, fix=suggest_name(name, found))
        entry = found.get(names[name])
        if entry and entry.shape != tensor.shape:
            shapes = _format_shape(entry.shape), _format_shape(tensor.shape)
            what = f"the tensor {name!r} has the shape {shapes[0]}; the model needs {shapes[1]}"
            fix = "set train.model.config to the config.json beside the file; remove a head for other labels from it"
            raise ConfigError(what, where=where, fix=fix)
        if entry and entry.dtype not in DTYPE_BYTES:
            what = f"the tensor {name!r} has the dtype {entry.dtype}"
            raise ConfigError(what, where=where, fix=f"save it as one of {', '.join(DTYPE_BYTES)}")
    _refuse_strangers(config, found.keys() - set(names.values()), where)
    return {name: found[other] for name, other in names.items() if other in found}


def normal_values(keys: UInt64Array, start: int, stop: int, std: float) -> Floats:
    """Return values `start` to below `stop` of a tensor, approximately normal and bit-identical everywhere.

    Each is `std * (s - MEAN) / 65536`, where `s` is the sum of the twelve 16-bit parts of three random words: one
    multiplication in float64, rounded once to fp32. No value is beyond six standard deviations.

    Args:
        keys: the tensor's key, (1,).
        start: the first row-major index in the tensor.
        stop: the index after the last.
        std: the standard deviation.

    Returns:
        fp32, (stop - start,).
    """
    words = bits(keys, np.arange(3 * start, 3 * stop, dtype=np.uint64))
    pairs = (words >> _S16) & _LANES
    pairs += words & _LANES  # two sums of two in each word
    sums = pairs[0::3] + pairs[1::3] + pairs[2::3]
    sums = (sums + (sums >> _S32)) & _LOW
    deviates = (sums.astype(np.float64) - MEAN) / 65536.0
    numbers: Floats = (std * deviates).astype(np.float32)
    return numbers


def _initial(seed: int, name: str, tensor: TensorSpec) -> Iterator[Floats]:
    keys = key(seed, name)
    for start in range(0, tensor.size, _BLOCK):
        stop = min(start + _BLOCK, tensor.size)
        if tensor.kind != "normal":
            yield np.full(stop - start, tensor.kind == "ones", np.float32)
            continue
        block = normal_values(keys, start, stop, tensor.std)
        if tensor.zero_row >= 0:
            width = tensor.shape[1]
            first = tensor.zero_row * width - start
            block[max(first, 0) : max(first + width, 0)] = 0
        yield block


def _refuse_strangers(config: TransformersConfig, left: set[str], where: str) -> None:
    base, whole = BASE_PREFIXES[config["model_type"]], {"id2label": ("",)}
    tasks = [task for task in FAMILIES[config["model_type"]].classes if task != "rtd" or GENERATOR in config]
    known = {name for task in tasks for name in parameters(config | whole, task)}
    known |= {name.removeprefix(base) for name in known} | set(_TIED)
    for name in sorted(left - known):
        if not _OTHERS.fullmatch(name):
            raise ConfigError(f"the model has no tensor {name!r}", where=where, fix=suggest_name(name, known))


def _format_shape(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape)) or "one number"
