"""An exported model that fairseq can be: its config, and its weights by transformers' names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from jprep.errors import InputError
from jprep.io.safetensors_file import Floats, TensorFiles
from jprep.train.exporting.manifest import read_config
from jprep.train.models import parameters
from jprep_fairseq_xla.planning.fairseq_options import TASKS

_HEADS = ("ForMaskedLM", "LMHeadModel")


def read_exported_model(folder: Path) -> tuple[dict[str, Any], Mapping[str, Floats]]:
    """An exported model's config, and its weights in fp32.

    Raises:
        InputError: fairseq has no such model, or its file lacks weights.
    """
    config = read_config(folder)
    [name] = config["architectures"]
    if config["model_type"] not in TASKS or not name.endswith(_HEADS):
        fix = "give a roberta, bert or gpt2 that jprep exported for mlm or clm, or take another backend"
        raise InputError(f"fairseq cannot be a {name}", where=str(folder), fix=fix)
    tensors = parameters(config, TASKS[config["model_type"]])
    return config, _Weights(folder, {name: tensor.shape for name, tensor in tensors.items()})


class _Weights(Mapping[str, Floats]):
    """An export's tensors in fp32, whatever its file has."""

    def __init__(self, folder: Path, shapes: dict[str, tuple[int, ...]]) -> None:
        self._files, self._shapes = TensorFiles([folder / "model.safetensors"]), shapes
        for name, shape in shapes.items():
            if name not in self._files or self._files.entries[name][1].shape != shape:
                what = f"the file lacks the tensor {name}"
                raise InputError(what, where=str(folder), fix="export the model again")

    def __getitem__(self, name: str) -> Floats:
        return np.concatenate(list(self._files.blocks(name))).reshape(self._shapes[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._shapes)

    def __len__(self) -> int:
        return len(self._shapes)
