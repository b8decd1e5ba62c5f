"""Validate single sections of a recipe, as `load_recipe` does with all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jprep.config import parse_config
from jprep.dataset.manifest import DatasetConfig, check_dataset_config
from jprep.tokenizer.config import TokenizerConfig, check_tokenizer_config


def dataset_config(section: Mapping[str, Any], where: str) -> DatasetConfig:
    """Validate a `[dataset]` section.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type or out of range.
    """
    config = parse_config(dict(section), DatasetConfig, where=where)
    check_dataset_config(config, where)
    return config


def tokenizer_config(section: Mapping[str, Any], where: str) -> TokenizerConfig:
    """Validate a `[tokenizer]` section.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of range, or two keys that exclude each other.
    """
    config = parse_config(dict(section), TokenizerConfig, where=where)
    check_tokenizer_config(config, where)
    return config
