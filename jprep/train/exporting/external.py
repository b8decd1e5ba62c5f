"""Write a model that another program trained as an exported directory, for `jprep infer` and `train.model.init`."""

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
    """A model that another program trained.

    Attributes:
        backend: the backend that converted it.
        task: the task that it was trained for.
        model: the model, as in a recipe's `[train.model]`.
        length: tokens in the longest row.
        step: the number of updates done; 0 if unknown.
    """

    backend: str
    task: Task
    model: ModelConfig
    length: int
    step: int


def external_config(model: ExternalModel, tokenizer: Path) -> TransformersConfig:
    """Return transformers' complete config of the model.

    Raises:
        ConfigError: there is no such model, or no finished tokenizer.
    """
    loaded = load_tokenizer(tokenizer)
    about = TokenizerInfo(loaded.vocab_size, model.length, loaded.bos, loaded.eos, loaded.pad)
    return model_config(model.model, model.task, about)


def export_external(
    model: ExternalModel, config: TransformersConfig, tokenizer: Path, folder: Path, read: Callable[[str], Floats]
) -> None:
    """Write weights in fp32, config and tokenizer atomically, replacing an earlier export.

    Args:
        model: the model.
        config: from `external_config`.
        tokenizer: the tokenizer's folder.
        folder: the directory to write.
        read: returns a tensor by transformers' name, in the shape given by `parameters`.

    Raises:
        ConfigError: the directory holds something else.
        InputError: a weight is NaN or infinite.
        MachineError: the disk is full or not writable.
    """
    tensors, loaded = parameters(config, model.task), load_tokenizer(tokenizer)

    def blocks(name: str) -> Iterator[Floats]:
        array = read(name)
        if not np.isfinite(array).all():
            fix = "use a checkpoint from before its training failed"
            raise InputError(f"the tensor {name!r} contains NaN or infinity", fix=fix)
        yield array

    with atomic_export(folder) as partial:
        write_tensors(partial / WEIGHTS, {name: tensors[name].shape for name in sorted(tensors)}, blocks)
        manifest = ModelExportManifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=folder.absolute().name,
            task=model.task,
            backend=model.backend,
            step=model.step,
            dtype="fp32",
            parameters=parameter_count(config, model.task),
            special=special_ids_for_task(special_ids(loaded), model.task, "stream"),
            end=end_of_document_id(loaded),
            files={},
        )
        exported, _ = write_config_files(partial, manifest, config, tokenizer)
        write_export(partial, exported)
