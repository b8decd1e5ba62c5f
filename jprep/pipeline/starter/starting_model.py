"""A finished model whose training a starter recipe continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.errors import ConfigError
from jprep.hub.location import is_hub_name, resolve_location
from jprep.pipeline.init_tokenizer import tokenizer_beside
from jprep.pipeline.starter.choices import BACKENDS, FAMILIES, BackendName, StartingModel
from jprep.tokenizer.card import read_card
from jprep.tokenizer.external.files import is_external
from jprep.train.job.config import Task, objective_of
from jprep.train.models.config import max_positions
from jprep.train.models.model_family import model_width
from jprep.train.models.presets import FAMILIES as ARCHITECTURES
from jprep.train.pretrained.config import CONFIG, PretrainedConfig, read_pretrained_config
from jprep.train.pretrained.location import refuse_run

_WORDS = ("hard", "spaces")
"""Boundaries of tokenizers that take the words of a corpus, and not raw text."""


def read_starting_model(init: str, task: Task | None = None) -> StartingModel:
    """Read what a model is, from its `config.json`; of a name on the Hub, config and tokenizer are downloaded.

    Args:
        init: a directory in Hugging Face form, or a name on the Hub.
        task: the task to fine-tune it for; None continues its training.

    Raises:
        ConfigError: there is no such directory or name, it is not a model with a tokenizer, or starter recipes know no
            settings for it.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    folder, tokenizer = _find_model(init)
    given = read_pretrained_config(folder)
    if not _is_known(given.model_type, task):
        verb, purpose = ("fine-tune", f" for {task}") if task else ("continue", "")
        what = f"starter recipes do not {verb} models of the type {given.model_type!r}{purpose}"
        fix = "give a causal model" if task == "sft" else "write the recipe by hand, see docs/pretrained.md"
        raise ConfigError(what, where=f"--init {init}", fix=fix)
    return StartingModel(init, given.model_type, _positions(given), *_words_of(tokenizer), _width(given))


def _is_known(family: str, task: Task | None) -> bool:
    if task:
        return family in FAMILIES and objective_of(task) in ARCHITECTURES[family].classes
    return family in FAMILIES and FAMILIES[family].task != "rtd"


def _find_model(init: str) -> tuple[Path, Path]:
    """Return the directory of a model's config, and that of its tokenizer."""
    where, path = f"--init {init or repr(init)}", Path(init).expanduser()
    refuse_run(path)
    if not init or not (is_hub_name(init) or path.is_dir()):
        what = "expected a directory, got a file" if path.is_file() else f"there is no directory {init!r}"
        raise ConfigError(what, where=where, fix="give an exported model, or a name on the Hub: ORG/NAME")
    folder, tokenizer = resolve_location(init, (CONFIG,)), tokenizer_beside(init)
    if not tokenizer or not (folder / CONFIG).is_file():
        missing = "tokenizer" if (folder / CONFIG).is_file() else CONFIG
        fix = "give a directory with config.json, weights and tokenizer, as `jprep export` writes it"
        raise ConfigError(f"there is no {missing} in this directory", where=where, fix=fix)
    return folder, tokenizer


def check_starting_model(start: StartingModel, backend: BackendName) -> None:
    """Refuse a backend that does not train such a model.

    Raises:
        ConfigError: it does not.
    """
    if start.family not in BACKENDS[backend].families:
        able = ", ".join(name for name, choice in BACKENDS.items() if start.family in choice.families)
        what = f"{backend} does not train {start.family}"
        raise ConfigError(what, where=f"--init {start.init}", fix=f"--train with one of {able}")


def _words_of(tokenizer: Path) -> tuple[bool, dict[str, Any]]:
    """Return whether a tokenizer takes words, and the segmenter with its options that found them in its corpus."""
    if is_external(tokenizer):
        return False, {}
    card = read_card(tokenizer)
    if card.config.boundaries not in _WORDS or not card.segmenter:
        return card.config.boundaries in _WORDS, {}
    return True, {"use": card.segmenter["name"], **card.segmenter["config"]}


def _width(given: PretrainedConfig) -> int:
    return model_width({**ARCHITECTURES[given.model_type].defaults, **given.values})


def _positions(given: PretrainedConfig) -> int:
    pad = 1 if given.pad is None else given.pad
    defaults = ARCHITECTURES[given.model_type].defaults
    return max_positions({**defaults, **given.values, "model_type": given.model_type, "pad_token_id": pad})
