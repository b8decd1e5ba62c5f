"""Initial weights: from the seed, bit-identical on every machine, or from a file. See `docs/training.md`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path
from jprep.io.safetensors_file import DTYPE_BYTES, Floats, write_tensors
from jprep.random.counter_bits import UInt64Array, bits, key
from jprep.train.models.electra import GENERATOR, half_config
from jprep.train.models.presets import TransformersConfig
from jprep.train.models.weights import TensorSpec, parameters
from jprep.train.pretrained.config import has_same_labels, read_pretrained_config
from jprep.train.pretrained.names import head_tensors, match_halves, match_tensors, refuse_untied
from jprep.train.pretrained.stored_tensors import StoredTensor
from jprep.train.pretrained.universal import is_described, is_universal, with_shapes
from jprep.train.pretrained.vocabulary import RowSources, is_by_token, transfer_rows
from jprep.train.pretrained.weights import open_weights

MEAN = 12 * 65535 // 2
"""The mean of the sum of twelve 16-bit integers. Its variance is 2**32 - 1, so 65,536 is one standard deviation."""

_BLOCK = 1 << 14  # numbers generated at a time, so that intermediate arrays stay in a core's cache
_LANES = np.uint64(0x0000FFFF0000FFFF)
_S16, _S32, _LOW = np.uint64(16), np.uint64(32), np.uint64(0xFFFFFFFF)


def write_initial_weights(
    config: TransformersConfig,
    task: str,
    seed: int,
    path: Path,
    given: Path | None = None,
    rows: RowSources | None = None,
    generator: Path | None = None,
) -> None:
    """Write the initial weights of a run atomically, as safetensors in fp32. Memory use does not grow with the model.

    Args:
        config: from `model_config`.
        task: the task of the job.
        seed: the seed of the job.
        path: the file to write.
        given: a file with weights to start from, or a folder in Hugging Face form. A head that it lacks is initialized
            from the seed; heads of other tasks in it are ignored.
        rows: for each id of the job's tokenizer, the rows of the given embeddings whose mean it begins with; None if
            the ids are those of the given model.
        generator: for `rtd`, a folder with the generator's weights; `given` has the discriminator's.

    Raises:
        ConfigError: there is no such file, or it is of another model.
        InputError: it is damaged, or contains a NaN or an infinite number.
        MachineError: the disk is full or not writable.
    """
    tensors = parameters(config, task)
    sources = check_init_weights(config, task, given, rows, generator) if given else {}

    def blocks(name: str) -> Iterator[Floats]:
        fresh = initial_values(seed, name, tensors[name])
        if name not in sources:
            return fresh
        if rows is not None and is_by_token(name):
            return transfer_rows(name, sources[name], rows, fresh)
        return sources[name].blocks(name)

    with atomic_path(path) as temporary:
        write_tensors(temporary, {name: tensors[name].shape for name in sorted(tensors)}, blocks)


def check_init_weights(
    config: TransformersConfig,
    task: str,
    path: Path,
    rows: RowSources | None = None,
    generator: Path | None = None,
) -> dict[str, StoredTensor]:
    """Check that a file or a folder has the weights of a model. Only headers are read, and tensors that must be equal.

    Args:
        config: from `model_config`.
        task: the task of the job.
        path: the file, or a folder in Hugging Face form.
        rows: see `write_initial_weights`; the embeddings may then have any number of rows.
        generator: see `write_initial_weights`.

    Returns:
        The model's tensors in the files, without those to be initialized from the seed.

    Raises:
        ConfigError: there are no weights, or a tensor is missing, unknown or of another shape; the message names it.
        InputError: a file is damaged.
    """
    tensors, where = parameters(config, task), str(path)
    if generator:
        sources = match_halves(config, open_weights(path), open_weights(generator), (where, str(generator)))
    else:
        sources = match_tensors(config, task, open_weights(path), where)
    if config.get("id2label") and is_described(path) and not has_same_labels(read_pretrained_config(path), config):
        sources = {name: source for name, source in sources.items() if name not in head_tensors(config, tensors)}
    sources = with_shapes(sources, tensors) if is_universal(path) else sources
    for name, source in sources.items():
        found, needed = source.entry.shape, tensors[name].shape
        if rows is not None and is_by_token(name):
            found, needed = found[1:], needed[1:]
        if found != needed:
            owner = generator if generator and name.startswith(f"{GENERATOR}.") else path
            raise _another_shape(name, source.entry.shape, tensors[name].shape, owner)
        if source.entry.dtype not in DTYPE_BYTES:
            what = f"the tensor {name!r} has the dtype {source.entry.dtype}"
            raise ConfigError(what, where=where, fix=f"save it as one of {', '.join(DTYPE_BYTES)}")
    if not is_described(path):  # a config.json says what is tied
        refuse_untied(config, task, open_weights(path), where)
    if generator and not is_described(generator):
        refuse_untied(half_config(config, "generator"), "mlm", open_weights(generator), str(generator))
    return sources


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


def initial_values(seed: int, name: str, tensor: TensorSpec) -> Iterator[Floats]:
    """Yield the values of a tensor that is initialized from the seed, a block at a time."""
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


def _another_shape(name: str, found: tuple[int, ...], needed: tuple[int, ...], path: Path) -> ConfigError:
    what = f"the tensor {name!r} has the shape {format_shape(found)}; the model needs {format_shape(needed)}"
    fix = "set train.model.config to the config.json beside the file; remove a head for other labels from it"
    if is_universal(path):
        fix = "set train.model.preset or train.model.config to the sizes of the checkpoint's model"
    elif path.is_dir():
        fix = "its config.json does not describe these weights: download the model again"
    return ConfigError(what, where=str(path), fix=fix)


def format_shape(shape: tuple[int, ...]) -> str:
    """Return a shape for messages."""
    return " × ".join(map(str, shape)) or "one number"
