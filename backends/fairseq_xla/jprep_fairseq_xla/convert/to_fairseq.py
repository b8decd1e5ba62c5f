"""An exported model as a folder that fairseq itself loads: a checkpoint, and its dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from jprep.dataset.exports.fairseq import symbols
from jprep.errors import ConfigError, MachineError
from jprep.io.safetensors_file import Floats
from jprep.train.exporting.manifest import read_export, verify_export
from jprep.train.exporting.output_folder import atomic_folder
from jprep_fairseq_xla.convert.detect_model import (
    FAIRSEQ_TASKS,
    LAYER_NORM_EPSILON,
    LAYER_PREFIXES,
    SEGMENT_EMBEDDINGS,
    TIED_OUTPUTS,
)
from jprep_fairseq_xla.convert.dictionaries import SPECIAL_SYMBOL_COUNT
from jprep_fairseq_xla.convert.exported_model import read_exported_model
from jprep_fairseq_xla.models.weights import TOKEN_TYPE_TABLE, to_fairseq_weights
from jprep_fairseq_xla.planning.fairseq_options import TASKS, FairseqOptions, command_line, model_options
from jprep_fairseq_xla.worker.patches import import_fairseq

CHECKPOINT, DICTIONARY, SENTENCEPIECE = "model.pt", "dict.txt", "sentencepiece.bpe.model"
"""The files of the folder; fairseq's hub interface looks for the last by this name."""

_MACHINE = {"distributed_world_size": 1, "distributed_num_procs": 1, "nprocs_per_node": 1, "device_id": 0}
"""Options whose defaults fairseq takes from the machine: its GPUs, and the environment."""

_VERSION = 3.0  # of a stack of layers, as fairseq counts; to an older one it gives no norm at its end


def write_for_fairseq(exported: Path, folder: Path) -> None:
    """Write an exported model as fairseq has such, whole or not at all.

    Args:
        exported: a folder of `jprep export`.
        folder: where to; one that was written before is replaced.

    Raises:
        ConfigError: fairseq cannot be this model, it has other special tokens than fairseq's dictionary, or something
            else lies in the folder.
        InputError: its file lacks weights.
        MachineError: this environment's versions are not those that the mends are for; the disk is full.
    """
    _refuse_others(folder)
    import_fairseq("cpu")
    about = read_export(exported)
    verify_export(exported, about)
    config, weights = read_exported_model(exported)
    _check(config, exported)
    names = symbols(exported)
    state = _state(config, weights, about.step)
    with atomic_folder(folder, _refuse_others) as partial:
        listed = names[SPECIAL_SYMBOL_COUNT:] if config["model_type"] == "gpt2" else names[SPECIAL_SYMBOL_COUNT:-1]
        (partial / DICTIONARY).write_text("".join(f"{symbol} 1\n" for symbol in listed), encoding="utf-8")
        if (exported / "spm.model").exists():
            (partial / SENTENCEPIECE).write_bytes((exported / "spm.model").read_bytes())
        _save(state, partial / CHECKPOINT)


def _refuse_others(folder: Path) -> None:
    """Raise ConfigError where something would be lost that was not written here."""
    own = (CHECKPOINT, DICTIONARY, SENTENCEPIECE)
    if folder.exists() and (not folder.is_dir() or any(path.name not in own for path in folder.iterdir())):
        what, fix = "something else lies here, and no model for fairseq", "give another folder, or delete what is there"
        raise ConfigError(what, where=str(folder), fix=fix)


def _save(state: dict[str, Any], path: Path) -> None:
    """PyTorch tells of a full disk by an error that says nothing of disks."""
    try:
        torch.save(state, path)
    except RuntimeError as error:
        what, fix = f"the checkpoint could not be written: {error}", "give another folder, or make room"
        raise MachineError(what, where=str(path), fix=fix) from error


def _check(config: dict[str, Any], exported: Path) -> None:
    """Raise ConfigError where jprep's backend changes fairseq's classes, and fairseq itself would not."""
    where = str(exported / "config.json")
    key = "layer_norm_epsilon" if config["model_type"] == "gpt2" else "layer_norm_eps"
    if config[key] != LAYER_NORM_EPSILON:
        what = f"fairseq's norms have an epsilon of {LAYER_NORM_EPSILON}, and this model's {config[key]}"
        raise ConfigError(what, where=where, fix=f"train with train.model.config.{key} = {LAYER_NORM_EPSILON}")
    if config["model_type"] == "roberta" and config["hidden_act"] != "gelu":
        what = f"fairseq's roberta has the {config['hidden_act']} of its layers in its head, and transformers' a gelu"
        raise ConfigError(what, where=where, fix='train with train.model.config.hidden_act = "gelu"')


def _state(config: dict[str, Any], weights: Mapping[str, Floats], updates: int) -> dict[str, Any]:
    """The checkpoint, as fairseq's trainer saves one, without an optimizer."""
    task = TASKS[config["model_type"]]
    found = to_fairseq_weights(config, task, weights.__getitem__, own=True)
    return {
        "args": None,
        "cfg": _configuration(config, FAIRSEQ_TASKS[task]),
        "model": _whole(config, found),
        "criterion": None,
        "optimizer_history": [
            {"criterion_name": "", "optimizer_name": "", "lr_scheduler_state": {}, "num_updates": updates}
        ],
        "task_state": {},
        "extra_state": {"metrics": {}, "previous_training_time": 0, "train_iterator": {"epoch": 1}},
        "last_optimizer_state": None,
    }


def _configuration(config: dict[str, Any], task: str) -> dict[str, Any]:
    """fairseq's configuration, whole, with nothing of this machine in it."""
    settings = model_options(config)
    for name in ("ids", "pad", "criterion"):
        settings.pop(name, None)
    length = settings.get("max_positions") or settings["max_target_positions"]
    settings |= {"task": task, "tokens_per_sample": length} | _MACHINE | _architecture(config)
    options, utils = import_module("fairseq.options"), import_module("fairseq.dataclass.utils")
    given = options.parse_args_and_arch(options.get_training_parser(), [".", *command_line(settings)])
    made: dict[str, Any] = import_module("omegaconf").OmegaConf.to_container(
        utils.convert_namespace_to_omegaconf(given), resolve=True, enum_to_str=True
    )
    return made


def _architecture(config: dict[str, Any]) -> FairseqOptions:
    """Options of `masked_lm`, which a BERT is for fairseq. Its `bert_base` turns on a head that tells whether one
    sentence follows another; without that, what else makes a BERT of it has to be said.
    """
    if config["model_type"] != "bert":
        return {}
    flags = ("share_encoder_input_output_embed", "encoder_learned_pos", "encoder_normalize_before", "apply_bert_init")
    return {"arch": "masked_lm"} | dict.fromkeys(flags, True)


def _whole(config: dict[str, Any], found: dict[str, Floats]) -> dict[str, torch.Tensor]:
    """All that fairseq looks for in a checkpoint: tied tables twice, versions, and heads that predict no tokens."""
    _fold_types(config, found)
    width = config.get("hidden_size", 0)
    state = {name: torch.from_numpy(array) for name, array in found.items()}
    if config["model_type"] == "bert":
        pooler = {"weight": torch.zeros(width, width), "bias": torch.zeros(width)}
        return state | {f"encoder.masked_lm_pooler.{name}": tensor for name, tensor in pooler.items()}
    base = LAYER_PREFIXES[config["model_type"]]
    state.setdefault(TIED_OUTPUTS[config["model_type"]], state[f"{base}.embed_tokens.weight"])
    return state | {f"{base}.version": torch.tensor([_VERSION])}


def _fold_types(config: dict[str, Any], found: dict[str, Floats]) -> None:
    """fairseq's task tells nothing of segments: what transformers adds for the first of them goes to the positions."""
    types = found.pop(TOKEN_TYPE_TABLE, found.get(SEGMENT_EMBEDDINGS))
    if types is not None and types[0].any():
        first = config["pad_token_id"] + 1
        found[f"{LAYER_PREFIXES[config['model_type']]}.embed_positions.weight"][first:] += types[0]
    if SEGMENT_EMBEDDINGS in found:
        found[SEGMENT_EMBEDDINGS] = found[SEGMENT_EMBEDDINGS] - found[SEGMENT_EMBEDDINGS][:1]
