"""The arms of a comparison: its recipes, and what distinguishes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple

import msgspec

from jprep.corpus.config import CorpusConfig, Source, StepRef, step_name
from jprep.dataset.manifest import DatasetConfig
from jprep.engine.fingerprint import abbreviate
from jprep.errors import ConfigError
from jprep.pipeline.recipe import Recipe, load_recipe
from jprep.tokenizer.config import TokenizerConfig

VOCABULARY = 8000
"""Ids of the tokenizer of a recipe without a `[tokenizer]` section."""


class RecipeArm(NamedTuple):
    """One recipe of a comparison.

    Attributes:
        name: `A`, `B`, …
        path: the recipe's file.
        recipe: the recipe.
    """

    name: str
    path: Path
    recipe: Recipe

    @property
    def corpus(self) -> CorpusConfig:
        """How its corpus is built."""
        return self.recipe.corpus

    @property
    def tokenizer(self) -> TokenizerConfig:
        """How its tokenizer is trained."""
        return self.recipe.tokenizer or TokenizerConfig(vocab_size=VOCABULARY)

    @property
    def dataset(self) -> DatasetConfig:
        """How its dataset is packed: sources that it holds out stay out, but it needs no share for validation."""
        given = self.recipe.dataset or DatasetConfig()
        validation, test = (value if isinstance(value, list) else 0.0 for value in (given.validation, given.test))
        return DatasetConfig(validation=validation, test=test)


def load_arms(paths: Sequence[Path], overrides: Sequence[str]) -> list[RecipeArm]:
    """Read the recipes of a comparison.

    Args:
        paths: the recipes' files, at least two.
        overrides: `a.b=value` settings for all of them.

    Raises:
        ConfigError: there are fewer than two or more than 26, a recipe is wrong, or one has no sources.
    """
    if not 2 <= len(paths) <= len(ascii_uppercase):
        raise ConfigError(
            f"expected 2 to {len(ascii_uppercase)} recipes, got {len(paths)}", fix="jprep compare A.toml B.toml"
        )
    arms = [
        RecipeArm(name, path, load_recipe(path, overrides)) for name, path in zip(ascii_uppercase, paths, strict=False)
    ]
    for arm in arms:
        if not arm.corpus.sources:
            fix = "add a [[corpus.sources]] table: a comparison builds the corpus itself"
            raise ConfigError("the recipe has no sources", where=str(arm.path), fix=fix)
    return arms


def source_origin(source: Source) -> dict[str, Any]:
    """Return what the documents of a source depend on before any step: not its name, licence or filters."""
    raw: dict[str, Any] = msgspec.to_builtins(source)
    return {key: raw[key] for key in ("paths", "reader", "files", "shards")}


def list_differences(arm: RecipeArm, first: RecipeArm) -> list[str]:
    """Return how an arm differs from the first one, a line for each key: `key: its value (the first one's)`."""
    own, other = (dict(_leaves(_compared(each))) for each in (arm, first))
    return [
        f"{key}: {_shown(own.get(key))} ({first.name}: {_shown(other.get(key))})"
        for key in sorted(own.keys() | other.keys())
        if own.get(key) != other.get(key)
    ]


def _compared(arm: RecipeArm) -> dict[str, Any]:
    corpus: dict[str, Any] = msgspec.to_builtins(arm.corpus)
    corpus["sources"] = {source.name: msgspec.to_builtins(source) for source in arm.corpus.sources}
    for kind in ("normalizers", "filters"):
        corpus[kind] = _steps(getattr(arm.corpus, kind))
    return {"corpus": corpus, "tokenizer": msgspec.to_builtins(arm.tokenizer)}


def _steps(refs: Sequence[StepRef]) -> dict[str, Any]:
    """Return the options of steps by name; a name that occurs again gets a number."""
    found, seen = dict[str, Any](), Counter[str]()
    for ref in refs:
        seen[name := step_name(ref)] += 1
        found[name if seen[name] == 1 else f"{name}#{seen[name]}"] = True if isinstance(ref, str) else ref
    return found


def _leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return [(path, value)]
    return [leaf for key, each in value.items() for leaf in _leaves(each, f"{path}.{key}" if path else key)]


def _shown(value: Any) -> str:
    return "none" if value is None else abbreviate(value)
