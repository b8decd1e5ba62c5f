"""Read an exported model, for inference servers that build the network themselves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.errors import InputError
from jprep.io.safetensors_file import TensorFiles
from jprep.train.models import FAMILIES, max_positions, parameters
from jprep.train.models.next_sentence import has_next_sentence_head

SHORTEST_ROW = 16
"""Shortest length to which rows are padded. Lengths are doubled from there, so that few are compiled."""


def task_of(config: dict[str, Any], folder: Path) -> str:
    """Return the task of an exported model.

    Args:
        config: its config.
        folder: its directory, for errors.

    Raises:
        InputError: its class is not one of those that jprep exports.
    """
    [name], kind = config["architectures"], config.get("problem_type")
    if has_next_sentence_head(config):
        return "mlm"
    classes = FAMILIES[config["model_type"]].classes if config["model_type"] in FAMILIES else {}
    tasks = [task for task, cls in classes.items() if cls == name and (task == "regress") == (kind == "regression")]
    if not tasks:
        fix = "use a model that jprep exported"
        raise InputError(f"inference with a {name} is not supported", where=str(folder), fix=fix)
    return tasks[0]


def weight_reader(folder: Path, config: dict[str, Any], task: str) -> Callable[[str], npt.NDArray[np.float32]]:
    """Return a function that reads a weight of an exported model by its name, in fp32.

    It raises InputError if the file lacks the weight, or has it in another shape.

    Args:
        folder: the exported directory.
        config: its config.
        task: its task.

    Raises:
        InputError: the file cannot be read.
    """
    files, specs = TensorFiles([folder / "model.safetensors"]), parameters(config, task)

    def read(name: str) -> npt.NDArray[np.float32]:
        shape = specs[name].shape
        if name not in files or files.entries[name][1].shape != shape:
            raise InputError(f"the file lacks the tensor {name}", where=str(folder), fix="export the model again")
        return np.concatenate([*files.blocks(name)]).reshape(shape)

    return read


def padded_length(length: int, config: dict[str, Any]) -> int:
    """Return the next length that is compiled, at most the number of positions."""
    return min(max(SHORTEST_ROW, 1 << (length - 1).bit_length()), max_positions(config))


def padded_row(ids: list[int], config: dict[str, Any]) -> npt.NDArray[np.int32]:
    """Return ids as a padded row, (1, padded length)."""
    row = np.full((1, padded_length(len(ids), config)), config.get("pad_token_id") or 0, np.int32)
    row[0, : len(ids)] = ids
    return row
