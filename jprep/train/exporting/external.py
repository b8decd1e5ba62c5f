"""A model that was trained elsewhere, as a directory like those of `jprep export`: `jprep infer` answers from it, and
its weights are what `train.model.init` takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np

from jprep.dataset.preprocessing.document_encoder import end_of_document_id
from jprep.dataset.sampling.special_ids import special_ids, special_ids_for_task
from jprep.errors import InputError
from jprep.io.safetensors_file import Floats, write_tensors
from jprep.tokenizer import load_tokenizer
from jprep.train.exporting.config_files import write_config_files
from jprep.train.exporting.manifest import FORMAT, ModelExportManifest, write_export
from jprep.train.exporting.output_folder import atomic_export
from jprep.train.exporting.weights import WEIGHTS
from jprep.train.job.config import ModelConfig, Task
from jprep.train.models import TokenizerInfo, model_config, parameter_count, parameters
from jprep.train.models.presets import TransformersConfig


class ExternalModel(NamedTuple):
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
    model: ModelConfig
    length: int
    step: int


def external_config(foreign: ExternalModel, tokenizer: Path) -> TransformersConfig:
    """transformers' whole config of it.

    Raises:
        ConfigError: there is no such model, or no finished tokenizer.
    """
    loaded = load_tokenizer(tokenizer)
    about = TokenizerInfo(loaded.vocab_size, foreign.length, loaded.bos, loaded.eos, loaded.pad)
    return model_config(foreign.model, foreign.task, about)


def export_external(
    foreign: ExternalModel, config: TransformersConfig, tokenizer: Path, folder: Path, read: Callable[[str], Floats]
) -> None:
    """Write its weights in fp32, config and tokenizer; whole or not at all, in the place of what was exported before.

    Args:
        foreign: what is known of it.
        config: from `external_config`.
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

    with atomic_export(folder) as partial:
        write_tensors(partial / WEIGHTS, {name: tensors[name].shape for name in sorted(tensors)}, blocks)
        about = ModelExportManifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=folder.absolute().name,
            task=foreign.task,
            backend=foreign.backend,
            step=foreign.step,
            dtype="fp32",
            parameters=parameter_count(config, foreign.task),
            special=special_ids_for_task(special_ids(loaded), foreign.task, "stream"),
            end=end_of_document_id(loaded),
            files={},
        )
        exported, _ = write_config_files(partial, about, config, tokenizer)
        write_export(partial, exported)
