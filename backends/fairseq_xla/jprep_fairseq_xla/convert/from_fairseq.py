"""Write a checkpoint of fairseq as a directory like those of `jprep export`."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from jprep.dataset.exports.fairseq import WORD_PREFIX, spell_words, symbols
from jprep.errors import ConfigError, InputError
from jprep.io.safetensors_file import Floats
from jprep.train.exporting.external import export_external, external_config
from jprep.train.models import parameters
from jprep_fairseq_xla.convert.detect_model import (
    LAYER_PREFIXES,
    SEGMENT_EMBEDDINGS,
    TIED_OUTPUTS,
    describe_model,
    detect_model_type,
    has_scaled_embeddings,
    matrix_shape,
    missing_tensor,
)
from jprep_fairseq_xla.convert.dictionaries import map_dictionary_rows
from jprep_fairseq_xla.convert.pickles import FairseqCheckpoint, read_checkpoint
from jprep_fairseq_xla.models.weights import TOKEN_TYPE_TABLE, tensor_locations, to_transformers_tensor
from jprep_fairseq_xla.planning.fairseq_options import TASKS
from jprep_fairseq_xla.worker.patches import import_fairseq

_IGNORED = re.compile(
    r"(.*\.)?version"
    r"|.*\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"  # the same weights again, for PyTorch's fast layers
    r"|encoder\.(masked_lm_pooler|sentence_projection_layer)\..*"  # heads of BERT that predict no tokens
    r"|(encoder\.)?classification_heads\..*"
)
_BIASES = ("encoder.lm_head.bias", "encoder.lm_output_learned_bias")


def from_fairseq(path: Path, tokenizer: Path, folder: Path, dictionary: Path | None = None) -> None:
    """Convert a checkpoint of fairseq to transformers.

    Args:
        path: the checkpoint.
        tokenizer: directory of the tokenizer that encoded its data.
        folder: output directory.
        dictionary: the `dict.txt` that the model was trained with; None if it is the tokenizer's.

    Raises:
        ConfigError: transformers has no such model, or it was trained with different symbols than the tokenizer's.
        InputError: the file is damaged, holds more than weights and options, or an incomplete model.
        MachineError: the installed versions are not those that the patches are for, or the disk is full.
    """
    import_fairseq("cpu")
    checkpoint = read_checkpoint(path)
    model_type = detect_model_type(checkpoint)
    external = describe_model(checkpoint, model_type)
    rows = map_dictionary_rows(checkpoint, model_type, _names(tokenizer, dictionary), dictionary)
    config = external_config(external, tokenizer)
    export_external(external, config, tokenizer, folder, _ConvertedTensors(checkpoint, config, rows))


def _names(tokenizer: Path, dictionary: Path | None) -> list[str]:
    """Return the tokenizer's symbols, with words spelt as in the dictionary: as they are, or as `to_fairseq` does."""
    names = symbols(tokenizer)
    words = spell_words(tokenizer, names)
    if not words or dictionary is None or not dictionary.is_file():
        return names
    with dictionary.open("rb") as lines:
        return words[0] if lines.readline().startswith(WORD_PREFIX.encode()) else names


class _ConvertedTensors:
    """Convert tensors by transformers' names; none may be missing, and none left over."""

    def __init__(self, checkpoint: FairseqCheckpoint, config: dict[str, Any], rows: list[int]) -> None:
        self._checkpoint, self._config, self._rows = checkpoint, config, rows
        model_type = config["model_type"]
        task = TASKS[model_type]
        self._locations = tensor_locations(config, task, fairseq_positions=True)
        self._specs = parameters(config, task)
        _refuse_extra_tensors(
            checkpoint, model_type, {own for where in self._locations.values() for own in where.names}
        )
        self._embedding = f"{LAYER_PREFIXES[model_type]}.embed_tokens.weight"
        self._known, _ = matrix_shape(checkpoint, self._embedding)
        self._scaled = model_type == "gpt2" and has_scaled_embeddings(checkpoint)

    def __call__(self, name: str) -> Floats:
        where, shape = self._locations[name], self._specs[name].shape
        with contextlib.suppress(IndexError, ValueError):  # shapes that do not match
            array = to_transformers_tensor(where, self._read)
            if array.shape == shape:
                return array
        what = f"{' and '.join(where.names)} cannot be converted to a tensor of shape {shape}"
        raise InputError(what, where=str(self._checkpoint.path), fix="use a complete checkpoint of one model")

    def _read(self, name: str) -> Floats:
        """Return a tensor of fairseq by name, with the rows of the tokenizer."""
        if name == TOKEN_TYPE_TABLE:
            return np.zeros((1, self._config["hidden_size"]), np.float32)
        if name not in self._checkpoint.weights:
            raise missing_tensor(self._checkpoint, name)
        array: Floats = self._checkpoint.weights[name].detach().float().numpy()
        if name == SEGMENT_EMBEDDINGS:  # the task passes no segments: none of them is ever added
            return np.zeros_like(array)
        if name in (self._embedding, *TIED_OUTPUTS.values(), *_BIASES) and array.shape[:1] == (self._known,):
            array = array[self._rows]
        if name == self._embedding and self._scaled:
            return array * np.float32(np.sqrt(self._config["n_embd"]))
        return array


def _refuse_extra_tensors(checkpoint: FairseqCheckpoint, model_type: str, wanted: set[str]) -> None:
    """Raise ConfigError for a tensor without a counterpart, or an output that is not tied to the input."""
    path, prefix = str(checkpoint.path), LAYER_PREFIXES[model_type]
    tied = TIED_OUTPUTS.get(model_type, "")
    for name, tensor in checkpoint.weights.items():
        if name == tied and name not in wanted:
            embedding = checkpoint.weights[f"{prefix}.embed_tokens.weight"]
            if tensor.shape != embedding.shape or not tensor.equal(embedding):
                fix = "use a model with tied embeddings: transformers' class has one table for both"
                raise ConfigError(f"{name} differs from the input embedding", where=path, fix=fix)
        elif name not in wanted and not _IGNORED.fullmatch(name):
            what = f"transformers' {model_type} has no counterpart of the tensor {name}"
            raise ConfigError(what, where=path, fix="use a model without it")
