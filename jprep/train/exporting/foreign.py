"""A model that was trained elsewhere, as a directory like those of `jprep export`: `jprep infer` answers from it, and
its weights are what `train.model.init` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.dataset.encoder import end_of
from jprep.dataset.special_ids import around_rows, special_ids
from jprep.errors import InputError
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting.config_files import write_beside
from jprep.train.exporting.folder import whole
from jprep.train.exporting.manifest import FORMAT, Exported, write_export
from jprep.train.exporting.weights import WEIGHTS
from jprep.train.job import ModelSection, Task
from jprep.train.models import About, count, model_config, parameters
from jprep.train.models.presets import Config
from jprep.train.tensor_file import Floats, write_tensors


class Foreign(NamedTuple):
    """What is known of such a model.

    Attributes:
        backend: that it is of.
        task: what it was trained for.
        model: as a recipe's `[train.model]` would have it.
        length: tokens of the longest row.
        step: how many updates it has had; 0 where nobody knows.
    """

    backend: str
    task: Task
    model: ModelSection
    length: int
    step: int


def foreign_config(foreign: Foreign, tokenizer: Path) -> Config:
    """transformers' whole config of it.

    Raises:
        ConfigError: there is no such model, or no finished tokenizer.
    """
    loaded = load_tokenizer(tokenizer)
    about = About(loaded.vocab_size, foreign.length, loaded.bos, loaded.eos, loaded.pad)
    return model_config(foreign.model, foreign.task, about)


def write_foreign(
    foreign: Foreign, config: Config, tokenizer: Path, folder: Path, read: Callable[[str], Floats]
) -> None:
    """Write its weights in fp32, config and tokenizer; whole or not at all, in the place of what was exported before.

    Args:
        foreign: what is known of it.
        config: from `foreign_config`.
        tokenizer: the tokenizer's folder.
        folder: where to.
        read: gives a tensor by transformers' name, of the shape that `parameters` says.

    Raises:
        ConfigError: something else lies in the folder.
        InputError: a weight is no number.
        MachineError: the disk is full or not writable.
    """
    tensors, loaded = parameters(config, foreign.task), load_tokenizer(tokenizer)

    def blocks(name: str) -> Iterator[Floats]:
        array = read(name)
        if not np.isfinite(array).all():
            fix = "take a checkpoint from before its training failed"
            raise InputError(f"the tensor {name!r} holds a number that is none", fix=fix)
        yield array

    with whole(folder) as partial:
        write_tensors(partial / WEIGHTS, {name: tensors[name].shape for name in sorted(tensors)}, blocks)
        about = Exported(
            jprep=version("jprep"),
            format=FORMAT,
            name=folder.absolute().name,
            task=foreign.task,
            backend=foreign.backend,
            step=foreign.step,
            dtype="fp32",
            parameters=count(config, foreign.task),
            special=around_rows(special_ids(loaded), foreign.task, "stream"),
            end=end_of(loaded),
            files={},
        )
        exported, _ = write_beside(partial, about, config, tokenizer)
        write_export(partial, exported)
