"""Reads a recipe and checks all of it, whichever part a command uses: a typo is found before hours of work."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus import config as corpus_recipe
from jprep.corpus.config import CorpusConfig, Recipe, StepRef, parse_config, step_name
from jprep.dataset.manifest import DatasetConfig
from jprep.errors import ConfigError, JprepError
from jprep.pipeline.unused_keys import find_unused_keys
from jprep.plugins import plugins
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import TrainConfig
from jprep.train.models import check_model

_log = logging.getLogger(__name__)


def load_recipe(path: Path, overrides: Iterable[str] = (), tokenizer: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe file and check every section, without loading a framework.

    Args:
        path: a TOML file.
        overrides: `a.b=value` settings that replace what the file says.
        tokenizer: keys of `[tokenizer]` that replace what the file says.

    Raises:
        ConfigError: not TOML; an unknown key or a value of the wrong type in any section.
    """
    recipe = corpus_recipe.load_recipe(path, overrides)
    if tokenizer:
        recipe = msgspec.structs.replace(recipe, tokenizer={**recipe.tokenizer, **tokenizer})
    check_recipe(recipe, str(path))
    return recipe


def check_recipe(recipe: Recipe, where: str) -> None:
    """Check the sections that `jprep.corpus.config` leaves to other packages, and the options of steps and backends.

    Keys that have no effect are logged as warnings.

    What only some machines can know, such as a plugin that is not installed here, is left to the command that needs it.

    Args:
        recipe: the recipe.
        where: its file, for errors.

    Raises:
        ConfigError: see `load_recipe`.
    """
    tokenizer = parse_config(recipe.tokenizer, TokenizerConfig, where=f"{where}, [tokenizer]")
    parse_config(recipe.dataset, DatasetConfig, where=f"{where}, [dataset]")
    train = parse_config(recipe.train, TrainConfig, where=f"{where}, [train]")
    for kind, ref in _steps(recipe.corpus, tokenizer):
        _check_step(kind, ref, where)
    for name, options in train.backend.items():
        _check_backend(name, options, where)
    if recipe.train:
        check_model(train.model, train.task)
    for warning in find_unused_keys(recipe.corpus, tokenizer, train if recipe.train else None):
        _log.warning("%s: %s", where, warning)


def _steps(corpus: CorpusConfig, tokenizer: TokenizerConfig) -> Iterator[tuple[str, StepRef]]:
    for source in corpus.sources:
        yield "reader", source.reader
        yield from (("filter", ref) for ref in source.filters or [])
    yield from (("normalizer", ref) for ref in [*corpus.normalizers, *(tokenizer.normalizers or [])])
    yield from (("filter", ref) for ref in corpus.filters)
    yield from (("splitter", corpus.splitter), ("segmenter", corpus.segmenter))


def _check_step(kind: str, ref: StepRef, where: str) -> None:
    name = step_name(ref)
    if not _is_known(kind, name, where) or isinstance(ref, str):
        return
    try:
        step = plugins().get(kind, name)
    except JprepError:  # it needs what is not installed here
        return
    options = {key: value for key, value in ref.items() if key != "use"}
    parse_config(options, step.Config, where=f"{where}, {kind} {name!r}")


def _check_backend(name: str, options: Mapping[str, Any], where: str) -> None:
    if not _is_known("backend", name, f"{where}, [train.backend]"):
        return
    try:
        schema = plugins().get("backend", name).Options
    except JprepError:
        return
    parse_config(dict(options), schema, where=f"{where}, [train.backend.{name}]")


def _is_known(kind: str, name: str, where: str) -> bool:
    """Return whether a plugin here has the name. One that is nearly that of another is a typo."""
    known = plugins().names(kind)
    if name not in known and (close := difflib.get_close_matches(name, known, n=1)):
        raise ConfigError(f"no {kind} is called {name!r}", where=where, fix=f"did you mean {close[0]!r}?")
    return name in known
