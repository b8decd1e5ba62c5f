"""Write a TensorFlow 1 checkpoint of BERT or ELECTRA as a folder in Hugging Face form."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np

from jprep.errors import ConfigError, InputError
from jprep.io.safetensors_file import Floats, write_tensors
from jprep.train.exporting.output_folder import atomic_folder, refuse_other_files
from jprep_keras.convert.configs import make_config, read_stated_config
from jprep_keras.convert.names import Part, TensorSource, model_type, tensor_sources, unknown_variables, weight_names

WEIGHTS, CONFIG, VOCABULARY, TOKENIZER_CONFIG = "model.safetensors", "config.json", "vocab.txt", "tokenizer_config.json"

_OWN_FILES = (WEIGHTS, CONFIG, VOCABULARY, TOKENIZER_CONFIG)
_SPECIAL = {"unk": "[UNK]", "sep": "[SEP]", "pad": "[PAD]", "cls": "[CLS]", "mask": "[MASK]"}
_ELECTRA = {"discriminator": "ElectraForPreTraining", "generator": "ElectraForMaskedLM"}


class ConversionOptions(NamedTuple):
    """Options of a conversion.

    Attributes:
        config: `bert_config.json`; None for the one beside the checkpoint, if there is one.
        vocabulary: `vocab.txt`; None for the one beside the checkpoint, if there is one.
        part: which ELECTRA model to convert.
    """

    config: Path | None = None
    vocabulary: Path | None = None
    part: Part = "discriminator"


def from_tensorflow1(checkpoint: Path, folder: Path, options: ConversionOptions) -> None:
    """Convert a checkpoint. The output appears complete, or not at all.

    Args:
        checkpoint: the checkpoint's prefix, such as `bert_model.ckpt`.
        folder: output directory; an earlier output of this function is replaced.
        options: the options.

    Raises:
        ConfigError: the checkpoint cannot be read, it is of neither model, or the output directory holds other files.
        InputError: a part of the model is missing, or a weight is NaN or infinite.
        MachineError: the disk is full or not writable.
    """
    refuse_other_files(folder, _OWN_FILES)
    reader = _open(checkpoint)
    shapes = {name: tuple(shape) for name, shape in reader.get_variable_to_shape_map().items()}
    variables = weight_names(shapes)
    kind = model_type(variables)
    if not kind or (strange := unknown_variables(variables)):
        what = f"it has variables of another model, e.g. {(strange if kind else variables)[:1]}"
        fix = "give a checkpoint of google-research/bert or google-research/electra"
        raise ConfigError(what, where=str(checkpoint), fix=fix)
    sources = tensor_sources(variables, options.part)
    tensors = {name: _shape(shapes[one.variable], one) for name, one in sorted(sources.items())}
    stated = read_stated_config(options.config or _beside(checkpoint, "bert_config.json"))
    config = make_config(kind, _architecture(kind, options.part, tensors), tensors, stated, str(checkpoint))
    vocabulary = options.vocabulary or _beside(checkpoint, VOCABULARY)

    def blocks(name: str) -> Iterator[Floats]:
        yield _array(reader, sources[name], name, checkpoint)

    with atomic_folder(folder, lambda found: refuse_other_files(found, _OWN_FILES)) as partial:
        write_tensors(partial / WEIGHTS, tensors, blocks)
        _write(partial / CONFIG, config)
        if vocabulary:
            _write_tokenizer(vocabulary, partial, config)


def _open(checkpoint: Path) -> Any:
    tensorflow = import_module("tensorflow")
    try:
        return tensorflow.train.load_checkpoint(str(checkpoint))
    except Exception as error:  # TensorFlow raises many kinds
        fix = "give the path without .index, beside which PATH.index and PATH.data-00000-of-00001 lie"
        raise ConfigError(f"not a TensorFlow checkpoint: {error}", where=str(checkpoint), fix=fix) from error


def _array(reader: Any, source: TensorSource, name: str, checkpoint: Path) -> Floats:
    array: Floats = np.asarray(reader.get_tensor(source.variable), np.float32)
    if not np.isfinite(array).all():
        fix = "use a checkpoint from before its training failed"
        raise InputError(f"the tensor {name!r} contains NaN or infinity", where=str(checkpoint), fix=fix)
    return np.ascontiguousarray(array.T) if source.transposed else array


def _shape(shape: tuple[int, ...], source: TensorSource) -> tuple[int, ...]:
    return shape[::-1] if source.transposed else shape


def _architecture(kind: str, part: Part, tensors: dict[str, tuple[int, ...]]) -> str:
    """Return transformers' class for the heads that a checkpoint has."""
    if kind == "electra":
        return _ELECTRA[part] if any("_predictions." in name for name in tensors) else "ElectraModel"
    if "classifier.weight" in tensors:
        return "BertForSequenceClassification"
    if "cls.seq_relationship.weight" in tensors:
        return "BertForPreTraining"
    return "BertForMaskedLM" if "cls.predictions.bias" in tensors else "BertModel"


def _beside(checkpoint: Path, name: str) -> Path | None:
    path = checkpoint.parent / name
    return path if path.exists() else None


def _write_tokenizer(vocabulary: Path, folder: Path, config: dict[str, Any]) -> None:
    """Write `vocab.txt` and the settings of BertTokenizer.

    A vocabulary without capital letters is one of lower-case text.
    """
    try:
        text = vocabulary.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        fix = "give the vocab.txt that the model came with"
        raise ConfigError(f"the vocabulary cannot be read: {error}", where=str(vocabulary), fix=fix) from error
    # Not str.splitlines: a token may be a line separator of Unicode, and the next ones would get other ids.
    pieces = [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]
    if len(pieces) > config["vocab_size"]:
        what = f"the vocabulary has {len(pieces):,} tokens, but the model {config['vocab_size']:,}"
        raise ConfigError(what, where=str(vocabulary), fix="give the vocab.txt that the model came with as --vocab")
    cased = any(re.search("[A-Z]", piece) for piece in pieces if not re.fullmatch(r"\[.*\]", piece))
    (folder / VOCABULARY).write_bytes("".join(f"{piece}\n" for piece in pieces).encode())
    roles = {f"{role}_token": token for role, token in _SPECIAL.items() if token in pieces}
    settings = {"tokenizer_class": "BertTokenizer", "do_lower_case": not cased}
    _write(folder / TOKENIZER_CONFIG, settings | {"model_max_length": config["max_position_embeddings"]} | roles)


def _write(path: Path, fields: dict[str, Any]) -> None:
    path.write_bytes(msgspec.json.format(msgspec.json.encode(dict(sorted(fields.items()))), indent=2) + b"\n")
