"""A checkpoint of fairseq's as a directory like those of `jprep export`."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

import numpy as np

from jprep.dataset.exports.fairseq import symbols
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

_LEFT_OUT = re.compile(
    r"(.*\.)?version"
    r"|.*\.layers\.\d+\.(in_proj|out_proj|fc1|fc2)_(weight|bias)"  # the same weights again, for PyTorch's fast layers
    r"|encoder\.(masked_lm_pooler|sentence_projection_layer)\..*"  # heads of BERT's that predict no tokens
    r"|(encoder\.)?classification_heads\..*"
)
_BIASES = ("encoder.lm_head.bias", "encoder.lm_output_learned_bias")


def from_fairseq(path: Path, tokenizer: Path, folder: Path, dictionary: Path | None = None) -> None:
    """Write a checkpoint of fairseq as transformers has such models.

    Args:
        path: the checkpoint.
        tokenizer: the folder of the tokenizer that made its ids.
        folder: where to.
        dictionary: the `dict.txt` that it was trained with; None where it is the tokenizer's.

    Raises:
        ConfigError: transformers has no such model, or it was trained with other symbols than the tokenizer's.
        InputError: the file is damaged, holds more than weights and options, or not the whole of a model.
        MachineError: this environment's versions are not those that the mends are for; the disk is full.
    """
    import_fairseq("cpu")
    checkpoint = read_checkpoint(path)
    kind = detect_model_type(checkpoint)
    foreign = describe_model(checkpoint, kind)
    rows = map_dictionary_rows(checkpoint, kind, symbols(tokenizer), dictionary)
    config = external_config(foreign, tokenizer)
    export_external(foreign, config, tokenizer, folder, _Tensors(checkpoint, config, rows))


class _Tensors:
    """Gives tensors by transformers' names; all are seen to be there, and none to be left."""

    def __init__(self, checkpoint: FairseqCheckpoint, config: dict[str, Any], rows: list[int]) -> None:
        self._checkpoint, self._config, self._rows = checkpoint, config, rows
        kind = config["model_type"]
        task = TASKS[kind]
        self._places, self._shapes = tensor_locations(config, task, own=True), parameters(config, task)
        _refuse_others(checkpoint, kind, {own for place in self._places.values() for own in place.names})
        self._table = f"{LAYER_PREFIXES[kind]}.embed_tokens.weight"
        self._known, _ = matrix_shape(checkpoint, self._table)
        self._scaled = kind == "gpt2" and has_scaled_embeddings(checkpoint)

    def __call__(self, name: str) -> Floats:
        place = self._places[name]
        with contextlib.suppress(IndexError, ValueError):  # tensors that do not fit together
            array = to_transformers_tensor(place, self._own)
            if array.shape == self._shapes[name].shape:
                return array
        what = f"{' and '.join(place.names)} cannot make a tensor of {self._shapes[name].shape}"
        raise InputError(what, where=str(self._checkpoint.path), fix="give a whole checkpoint of one model")

    def _own(self, name: str) -> Floats:
        """By fairseq's names, with the tokenizer's rows."""
        if name == TOKEN_TYPE_TABLE:
            return np.zeros((1, self._config["hidden_size"]), np.float32)
        if name not in self._checkpoint.weights:
            raise missing_tensor(self._checkpoint, name)
        array: Floats = self._checkpoint.weights[name].detach().float().numpy()
        if name == SEGMENT_EMBEDDINGS:  # its task tells nothing of segments: none of them is ever added
            return np.zeros_like(array)
        if name in (self._table, *TIED_OUTPUTS.values(), *_BIASES) and array.shape[:1] == (self._known,):
            array = array[self._rows]
        if name == self._table and self._scaled:
            return array * np.float32(np.sqrt(self._config["n_embd"]))
        return array


def _refuse_others(checkpoint: FairseqCheckpoint, kind: str, wanted: set[str]) -> None:
    """Raise ConfigError where a tensor has no place, or an output is not tied to the input as transformers' is."""
    where, base = str(checkpoint.path), LAYER_PREFIXES[kind]
    tied = TIED_OUTPUTS.get(kind, "")
    for name, tensor in checkpoint.weights.items():
        if name == tied and name not in wanted:
            table = checkpoint.weights[f"{base}.embed_tokens.weight"]
            if tensor.shape != table.shape or not tensor.equal(table):
                fix = "transformers' class has one table for both"
                raise ConfigError(f"{name} is another table than the input's", where=where, fix=fix)
        elif name not in wanted and not _LEFT_OUT.fullmatch(name):
            what = f"transformers' {kind} has no place for the tensor {name}"
            raise ConfigError(what, where=where, fix="give a model without it")
