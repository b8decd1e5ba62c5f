"""Read DeepSpeed's universal checkpoints: a folder for each weight, with its numbers in `fp32.pt`.

`python -m deepspeed.checkpoint.ds_to_universal` writes them, and so does `jprep export --format deepspeed-universal`.
Tensors of ZeRO stage 3 are stored flat; their shapes are those of the model.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path

from jprep.errors import ConfigError
from jprep.io.safe_names import name_problem
from jprep.train.models.weights import TensorSpecs
from jprep.train.pretrained.config import CONFIG
from jprep.train.pretrained.pickled_tensors import read_pickled_tensor
from jprep.train.pretrained.stored_tensors import StoredTensor

LATEST, ZERO, FP32, STEP = "latest_universal", "zero", "fp32.pt", "step.pt"
AVERAGE_FILES = {"m": "exp_avg.pt", "v": "exp_avg_sq.pt"}
"""The files of AdamW's running averages, by their marks in jprep's checkpoints."""

_TAG = re.compile(r"global_step(\d+)(\D.*)?", re.ASCII)


def is_universal(path: Path) -> bool:
    """Return whether a path is a universal checkpoint: the folder with `latest_universal`, or that of a tag."""
    return (path / LATEST).is_file() or (path / ZERO).is_dir()


def is_described(path: Path) -> bool:
    """Return whether a path is a folder whose `config.json` describes the model; a universal checkpoint needs none."""
    return path.is_dir() and ((path / CONFIG).exists() or not is_universal(path))


def universal_files(path: Path) -> list[Path]:
    """Return the file of each weight of a universal checkpoint.

    Raises:
        ConfigError: `latest_universal` names no checkpoint, or it has no weights.
    """
    zero = _tag_folder(path) / ZERO
    found = sorted(zero.glob(f"*/{FP32}"), key=lambda file: file.parent.name)
    if not found:
        fix = "give the output folder of DeepSpeed's ds_to_universal, with zero/NAME/fp32.pt for each weight"
        raise ConfigError("this universal checkpoint has no weights", where=str(zero), fix=fix)
    return found


def open_universal(path: Path) -> dict[str, StoredTensor]:
    """Return the weights of a universal checkpoint by name. Only descriptions are read.

    Raises:
        ConfigError: there are no weights.
        InputError: a file is damaged, or holds things other than a tensor.
    """
    return {file.parent.name: read_pickled_tensor(file) for file in universal_files(path)}


def step_of_tag(path: Path) -> int:
    """Return the step N of a universal checkpoint whose folder DeepSpeed has called `global_stepN…`; else 0."""
    tag = _TAG.fullmatch(_tag_folder(path).absolute().name)  # not of the folder that a link leads to
    return int(tag[1]) if tag else 0


def with_shapes(sources: Mapping[str, StoredTensor], tensors: TensorSpecs) -> dict[str, StoredTensor]:
    """Return the tensors with flat ones in the model's shapes, where the number of elements is the same."""
    return {name: _with_shape(source, tensors[name].shape) for name, source in sources.items()}


def _with_shape(source: StoredTensor, shape: tuple[int, ...]) -> StoredTensor:
    if source.strides or source.entry.shape != (math.prod(shape),):
        return source
    return source._replace(entry=source.entry._replace(shape=shape))


def _tag_folder(path: Path) -> Path:
    """Return the folder of a tag: the given one, or the one that `latest_universal` names."""
    if (path / ZERO).is_dir():
        return path
    tag = (path / LATEST).read_text(encoding="utf-8", errors="replace").strip()
    if name_problem(tag) or not (path / tag / ZERO).is_dir():
        what = f"it names {tag!r}, where there is no universal checkpoint"
        raise ConfigError(what, where=str(path / LATEST), fix="give the folder of a tag, which has a folder zero/")
    return path / tag
