"""Open the weights of a pretrained model, in any of the files that transformers writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError, InputError
from jprep.io.atomic import file_sha256
from jprep.io.safe_names import inner_path
from jprep.io.safetensors_file import read_header
from jprep.train.pretrained.pickled_tensors import read_pickled_tensors
from jprep.train.pretrained.stored_tensors import StoredTensor
from jprep.train.pretrained.universal import is_universal, open_universal, universal_files

_FILES = ("model.safetensors", "model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""The files of weights in a folder, the preferred one first; an index lists the files of sharded weights."""
_PICKLES = (".bin", ".pt", ".pth")


def weight_files(path: Path) -> list[Path]:
    """Return the files with the weights of a model.

    Args:
        path: a file, a folder in Hugging Face form, or a universal checkpoint of DeepSpeed.

    Raises:
        ConfigError: the folder has no weights, or lacks a file that its index lists.
        InputError: the index is damaged.
    """
    if not path.is_dir():
        return [path]
    found = _in_folder(path)
    if found is None and is_universal(path):
        return universal_files(path)
    if found is None:
        fix = f"it needs one of {', '.join(_FILES)}"
        if any(path.glob("*.h5")) or any(path.glob("*.msgpack")) or any(path.glob("*.ckpt*")):
            fix += "; `jprep convert` reads TensorFlow checkpoints of BERT and ELECTRA"
        raise ConfigError("this folder has no weights that jprep reads", where=str(path), fix=fix)
    return _sharded(found) if found.suffix == ".json" else [found]


def open_weights(path: Path) -> dict[str, StoredTensor]:
    """Return the tensors of a model by name. Only headers are read.

    Args:
        path: a file, a folder in Hugging Face form, or a universal checkpoint of DeepSpeed.

    Raises:
        ConfigError: there are no weights.
        InputError: a file is damaged, or holds things other than tensors.
    """
    if is_universal(path) and _in_folder(path) is None:
        return open_universal(path)
    return {name: tensor for file in weight_files(path) for name, tensor in _tensors(file).items()}


def weights_sha256(path: Path) -> str:
    """Return the SHA-256 of a model's weights: of the file, or a hash of those of several."""
    hashes = [file_sha256(file) for file in weight_files(path)]
    return hashes[0] if len(hashes) == 1 else fingerprint({"sha256": hashes})


def _in_folder(path: Path) -> Path | None:
    """Return the preferred file of weights of a folder in Hugging Face form; None if it has none."""
    return next((path / name for name in _FILES if (path / name).exists()), None)


def _tensors(file: Path) -> dict[str, StoredTensor]:
    if file.suffix in _PICKLES:
        return read_pickled_tensors(file)
    return {name: StoredTensor(file, entry) for name, entry in read_header(file).items()}


def _sharded(index: Path) -> list[Path]:
    try:
        listed: Any = msgspec.json.decode(index.read_bytes(), type=dict[str, Any])["weight_map"]
        names = sorted({str(name) for name in listed.values()})
        files = [index.parent / inner_path(name) for name in names]
    except (ValueError, KeyError, AttributeError, OSError) as error:
        raise InputError(f"not an index of weights: {error}", where=str(index), fix="download it again") from error
    if missing := [file.name for file in files if not file.exists()]:
        what = f"{len(missing)} of {len(files)} files of weights are missing, e.g. {missing[0]}"
        raise ConfigError(what, where=str(index), fix="download the whole model")
    return files
