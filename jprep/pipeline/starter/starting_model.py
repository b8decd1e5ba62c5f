"""A finished model whose training a starter recipe continues."""

from __future__ import annotations

from pathlib import Path

from jprep.errors import ConfigError
from jprep.hub.location import is_hub_name
from jprep.pipeline.init_tokenizer import tokenizer_beside
from jprep.pipeline.starter.choices import BACKENDS, FAMILIES, BackendName, StartingModel
from jprep.train.models.config import max_positions
from jprep.train.pretrained.location import described_model, refuse_run


def read_starting_model(init: str, backend: BackendName) -> StartingModel:
    """Read what a model is, from its `config.json`; of a name on the Hub, config and tokenizer are downloaded.

    Args:
        init: a folder in Hugging Face form, or a name on the Hub.
        backend: what trains it.

    Raises:
        ConfigError: there is no such folder or name, it is no model with a tokenizer, or the backend does not train it.
        MachineError: huggingface_hub is not installed, or the Hub cannot be reached.
    """
    where, path = f"--init {init}", Path(init).expanduser()
    refuse_run(path)
    if not is_hub_name(init) and not path.is_dir():
        fix = "give the directory of an exported model, or a name on the Hub: ORG/NAME"
        raise ConfigError(f"there is no folder {init!r}", where=where, fix=fix)
    config = described_model(init)
    if not config or not tokenizer_beside(init):
        missing = "tokenizer" if config else "config.json"
        fix = "give a folder with config.json, weights and tokenizer, as `jprep export` writes it"
        raise ConfigError(f"there is no {missing} in this folder", where=where, fix=fix)
    family = str(config["model_type"])
    if family not in FAMILIES or FAMILIES[family].task == "rtd":
        fix = "write the recipe by hand, see docs/pretrained.md"
        raise ConfigError(f"starter recipes do not continue models of the type {family!r}", where=where, fix=fix)
    if family not in BACKENDS[backend].families:
        able = ", ".join(name for name, choice in BACKENDS.items() if family in choice.families)
        raise ConfigError(f"{backend} does not train {family}", where=where, fix=f"--train with one of {able}")
    return StartingModel(init, family, max_positions(config))
