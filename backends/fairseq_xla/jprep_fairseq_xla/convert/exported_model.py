"""Read an exported model that fairseq supports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.errors import InputError
from jprep.train.exporting.manifest import read_config
from jprep.train.inference.exported_model import weight_reader
from jprep_fairseq_xla.models.weights import ReadTensor
from jprep_fairseq_xla.planning.fairseq_options import TASKS

_CLASS_SUFFIXES = ("ForMaskedLM", "LMHeadModel")


def read_exported_model(folder: Path) -> tuple[dict[str, Any], ReadTensor]:
    """Return an exported model's config, and a function that reads a weight by transformers' name, in fp32.

    The function raises InputError if the weight is missing, or has another shape.

    Raises:
        InputError: fairseq has no such model, or the file with its weights cannot be read.
    """
    config = read_config(folder)
    [name] = config["architectures"]
    if config["model_type"] not in TASKS or not name.endswith(_CLASS_SUFFIXES):
        fix = "use a roberta, bert or gpt2 that jprep exported for mlm or clm, or another backend"
        raise InputError(f"fairseq does not support a {name}", where=str(folder), fix=fix)
    return config, weight_reader(folder, config, TASKS[config["model_type"]])
