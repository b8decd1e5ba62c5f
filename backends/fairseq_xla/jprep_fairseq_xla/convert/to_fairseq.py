"""Write an exported model as a directory that fairseq itself loads: a checkpoint and its dictionary."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from jprep.dataset.exports.fairseq import spell_words, symbols
from jprep.errors import ConfigError
from jprep.io.safetensors_file import Floats
from jprep.train.exporting.manifest import read_export, verify_export
from jprep.train.exporting.output_folder import atomic_folder, refuse_other_files
from jprep_fairseq_xla.convert.detect_model import (
    FAIRSEQ_TASKS,
    LAYER_NORM_EPSILON,
    LAYER_PREFIXES,
    SEGMENT_EMBEDDINGS,
    TIED_OUTPUTS,
)
from jprep_fairseq_xla.convert.dictionaries import SPECIAL_SYMBOL_COUNT
from jprep_fairseq_xla.convert.exported_model import read_exported_model
from jprep_fairseq_xla.models.weights import TOKEN_TYPE_TABLE, ReadTensor, to_fairseq_weights
from jprep_fairseq_xla.planning.fairseq_options import TASKS, FairseqOptions, command_line, model_options
from jprep_fairseq_xla.worker.patches import import_fairseq
from jprep_torch.worker.torch_file import save_torch_file

CHECKPOINT, DICTIONARY, SENTENCEPIECE = "model.pt", "dict.txt", "sentencepiece.bpe.model"
"""The files of the directory; fairseq's hub interface expects the name of the last."""

_OWN_FILES = (CHECKPOINT, DICTIONARY, SENTENCEPIECE)

_MACHINE = {"distributed_world_size": 1, "distributed_num_procs": 1, "nprocs_per_node": 1, "device_id": 0}
"""Options whose defaults fairseq takes from the machine: its GPUs and environment variables."""

_LAYERS_VERSION = 3.0  # of a stack of layers, in fairseq's numbering; older ones have no final norm


def to_fairseq(exported: Path, folder: Path) -> None:
    """Convert an exported model to fairseq. The output appears complete, or not at all.

    Args:
        exported: a directory of `jprep export`.
        folder: output directory; an earlier output of this function is replaced.

    Raises:
        ConfigError: fairseq has no such model, its special tokens are not those of fairseq's dictionary, or the output
            directory holds other files.
        InputError: weights are missing.
        MachineError: the installed versions are not those that the patches are for, or the disk is full.
    """
    refuse_other_files(folder, _OWN_FILES)
    import_fairseq("cpu")
    manifest = read_export(exported)
    verify_export(exported, manifest)
    config, read = read_exported_model(exported)
    _check_config(config, exported)
    names, model = symbols(exported), _read(exported / "spm.model")
    if words := spell_words(exported, names):
        names, model = words
    state = _checkpoint(config, read, manifest.step)
    with atomic_folder(folder, lambda found: refuse_other_files(found, _OWN_FILES)) as partial:
        listed = names[SPECIAL_SYMBOL_COUNT:] if config["model_type"] == "gpt2" else names[SPECIAL_SYMBOL_COUNT:-1]
        (partial / DICTIONARY).write_text("".join(f"{symbol} 1\n" for symbol in listed), encoding="utf-8")
        if model:
            (partial / SENTENCEPIECE).write_bytes(model)
        save_torch_file(state, partial / CHECKPOINT)


def _read(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def _check_config(config: dict[str, Any], exported: Path) -> None:
    """Raise ConfigError for values that jprep's backend patches into fairseq's classes, and fairseq itself lacks."""
    path = str(exported / "config.json")
    key = "layer_norm_epsilon" if config["model_type"] == "gpt2" else "layer_norm_eps"
    if config[key] != LAYER_NORM_EPSILON:
        what = f"fairseq's norms have an epsilon of {LAYER_NORM_EPSILON}, but this model has {config[key]}"
        raise ConfigError(what, where=path, fix=f"train with train.model.config.{key} = {LAYER_NORM_EPSILON}")
    if config["model_type"] == "roberta" and config["hidden_act"] != "gelu":
        what = f"fairseq's roberta head uses the layers' activation {config['hidden_act']}, transformers' uses gelu"
        raise ConfigError(what, where=path, fix='train with train.model.config.hidden_act = "gelu"')


def _checkpoint(config: dict[str, Any], read: ReadTensor, updates: int) -> dict[str, Any]:
    """Return a checkpoint as fairseq's trainer saves it, without an optimizer."""
    task = TASKS[config["model_type"]]
    converted = to_fairseq_weights(config, task, read, fairseq_positions=True)
    return {
        "args": None,
        "cfg": _configuration(config, FAIRSEQ_TASKS[task]),
        "model": _complete_weights(config, converted),
        "criterion": None,
        "optimizer_history": [
            {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": updates}
        ],
        "task_state": {},
        "extra_state": {"metrics": {}, "previous_training_time": 0, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }


def _configuration(config: dict[str, Any], task: str) -> dict[str, Any]:
    """Return fairseq's whole configuration, with nothing that depends on this machine."""
    options = model_options(config)
    for name in ("ids", "pad", "criterion"):
        options.pop(name, None)
    length = options.get("max_positions") or options["max_target_positions"]
    options |= {"task": task, "tokens_per_sample": length} | _MACHINE | _architecture(config)
    fairseq_options, utils = import_module("fairseq.options"), import_module("fairseq.dataclass.utils")
    parser = fairseq_options.get_training_parser()
    namespace = fairseq_options.parse_args_and_arch(parser, [".", *command_line(options)])
    configuration: dict[str, Any] = import_module("omegaconf").OmegaConf.to_container(
        utils.convert_namespace_to_omegaconf(namespace), resolve=True, enum_to_str=True
    )
    return configuration


def _architecture(config: dict[str, Any]) -> FairseqOptions:
    """Return the options that make fairseq's `masked_lm` a BERT.

    Its `bert_base` would set them, but also adds the head for next sentence prediction.
    """
    if config["model_type"] != "bert":
        return {}
    flags = ("share_encoder_input_output_embed", "encoder_learned_pos", "encoder_normalize_before", "apply_bert_init")
    return {"arch": "masked_lm"} | dict.fromkeys(flags, True)


def _complete_weights(config: dict[str, Any], weights: dict[str, Floats]) -> dict[str, torch.Tensor]:
    """Return all that fairseq expects in a checkpoint: tied tables twice, versions, and heads that are not used."""
    _fold_token_types(config, weights)
    width = config.get("hidden_size", 0)
    state = {name: torch.from_numpy(array) for name, array in weights.items()}
    if config["model_type"] == "bert":
        pooler = {"weight": torch.zeros(width, width), "bias": torch.zeros(width)}
        return state | {f"encoder.masked_lm_pooler.{name}": tensor for name, tensor in pooler.items()}
    prefix = LAYER_PREFIXES[config["model_type"]]
    state.setdefault(TIED_OUTPUTS[config["model_type"]], state[f"{prefix}.embed_tokens.weight"])
    return state | {f"{prefix}.version": torch.tensor([_LAYERS_VERSION])}


def _fold_token_types(config: dict[str, Any], weights: dict[str, Floats]) -> None:
    """Add the embedding of the first token type to the positions, as fairseq's task passes no segments."""
    types = weights.pop(TOKEN_TYPE_TABLE, weights.get(SEGMENT_EMBEDDINGS))
    if types is not None and types[0].any():
        first = config["pad_token_id"] + 1
        weights[f"{LAYER_PREFIXES[config['model_type']]}.embed_positions.weight"][first:] += types[0]
    if SEGMENT_EMBEDDINGS in weights:
        weights[SEGMENT_EMBEDDINGS] = weights[SEGMENT_EMBEDDINGS] - weights[SEGMENT_EMBEDDINGS][:1]
