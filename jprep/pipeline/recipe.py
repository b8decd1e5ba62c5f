"""The whole recipe as one typed object, read from a TOML file and checked once."""

from __future__ import annotations

import difflib
import logging
import shlex
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from jprep.config import apply_overrides, merge_tables, parse_config
from jprep.corpus import config as corpus_config
from jprep.corpus.config import CorpusConfig, CorpusRecipe, StepRef, step_name, step_options
from jprep.corpus.readers.encoding import iconv_name
from jprep.dataset.manifest import DatasetConfig, check_dataset_config
from jprep.dataset.mix import check_sources
from jprep.engine.executors.choice import ExecutorRef, choose_executor
from jprep.errors import ConfigError, JprepError
from jprep.pipeline.starter.encodings import UTF8, encoding_of
from jprep.pipeline.starter.formats import reader_of
from jprep.pipeline.unused_keys import find_unused_keys
from jprep.plugins import plugins
from jprep.plugins.files import (
    BASES,
    FileReference,
    check_file,
    locate_step_files,
    parse_reference,
    register_step_file,
)
from jprep.plugins.recipe_options import register_recipe_options
from jprep.tokenizer.config import TokenizerConfig, check_tokenizer_config
from jprep.train.backend_loading import load_backend
from jprep.train.hooks.references import locate_files
from jprep.train.job.config import TrainConfig, check_train_config
from jprep.train.job.renamed import parse_options
from jprep.train.models import check_model

RECIPE_DIRECTORY = "{recipe}/"
"""What a path in a recipe's file begins with that is relative to the file's directory."""

_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "tokenizer": TokenizerConfig,
    "dataset": DatasetConfig,
    "train": TrainConfig,
}

_log = logging.getLogger(__name__)


class Recipe(CorpusRecipe, frozen=True, omit_defaults=True):
    """A whole recipe. A section that the recipe leaves out, or that is empty, is None.

    Attributes:
        tokenizer: the tokenizer to train on the corpus.
        dataset: how the corpus is packed with the tokenizer.
        train: the model to train, and how.
        executor: where tasks run: a name, or a table with the name as `use` and options. It changes no output.
        tiny: keys of the recipe with the values that they have with `--scale tiny`.
    """

    tokenizer: TokenizerConfig | None = None
    dataset: DatasetConfig | None = None
    train: TrainConfig | None = None
    executor: ExecutorRef | None = None
    tiny: dict[str, Any] = {}


def load_recipe(
    path: str | Path,
    overrides: Iterable[str] | Mapping[str, Any] = (),
    tokenizer: Mapping[str, Any] | None = None,
) -> Recipe:
    """Read a recipe file and check every section, without importing a framework.

    Keys that have no effect are logged as warnings. Its steps are registered, see `register_steps`.

    Args:
        path: a TOML file.
        overrides: `a.b=value` strings, or a mapping of `a.b` to values, that replace what the file says; elements of
            lists are named by their numbers, from 0.
        tokenizer: keys of `[tokenizer]` that replace what the file says.

    Raises:
        ConfigError: not TOML, another version, an unknown key, or a value of the wrong type or out of its range in any
            section; the message names the key.
    """
    path = Path(path)
    raw = locate_files(apply_overrides(_resolve_paths(_read_toml(path), path.parent), overrides), path.parent)
    raw = locate_step_files(raw, path.parent)
    if tokenizer:
        raw["tokenizer"] = {**raw.get("tokenizer", {}), **tokenizer}
    recipe = decode_recipe(raw, where=str(path))
    check_recipe(recipe, str(path))
    register_steps(recipe)
    return recipe


def register_steps(recipe: Recipe) -> None:
    """Let this process find the files and options of a recipe's steps, whose places no corpus records.

    Args:
        recipe: the recipe, checked by `check_recipe`.
    """
    for kind, ref in _steps(recipe.corpus, recipe.tokenizer or TokenizerConfig()):
        name = step_name(ref)
        register_recipe_options(kind, name, ref)
        if reference := _file_of(kind, name):
            register_step_file(reference)


def input_places(places: Iterable[str | Path]) -> list[str]:
    """Return places of inputs, with the paths of its sources instead of each recipe.

    Args:
        places: files, patterns, directories and recipes.

    Raises:
        ConfigError: a recipe is not valid.
    """
    found = list[str]()
    for place in map(str, places):
        sources = load_recipe(place).corpus.sources if place.endswith(".toml") else ()
        found += [path for source in sources for path in source.paths] or [place]
    return found


def decode_recipe(
    raw: dict[str, Any], overrides: Iterable[str] | Mapping[str, Any] = (), *, where: str = "the recipe"
) -> Recipe:
    """Convert plain data to a recipe; see `load_recipe`. Steps, backends and ranges are left to `check_recipe`."""
    raw = {key: value for key, value in apply_overrides(raw, overrides).items() if key not in _SECTIONS or value}
    for name, kind in _SECTIONS.items():
        if name in raw:  # by itself first, for an error that names the section
            parse_config(raw[name], kind, where=f"{where}, [{name}]")
    return corpus_config.decode_recipe(raw, where=where, kind=Recipe)


def with_tiny_values(recipe: Recipe, where: str) -> Recipe:
    """Return the recipe with the values of its `[tiny]`; see `jprep.config.merge_tables`.

    Args:
        recipe: the recipe, at any scale.
        where: its file, for errors.

    Raises:
        ConfigError: an unknown key, or a value of the wrong type.
    """
    where = f"{where}, [tiny]"
    try:
        raw = merge_tables(msgspec.to_builtins(recipe), recipe.tiny)
    except ConfigError as error:
        raise error.replace(where=where) from error
    return decode_recipe(raw, where=where)


def check_recipe(recipe: Recipe, where: str) -> None:
    """Check the values of every section, and the options of steps and backends.

    What only some machines can know, such as a plugin that is not installed here, is left to the command that needs it.

    Args:
        recipe: the recipe.
        where: its file, for errors.

    Raises:
        ConfigError: see `load_recipe`.
    """
    tokenizer, train = recipe.tokenizer or TokenizerConfig(), recipe.train
    check_tokenizer_config(tokenizer, f"{where}, [tokenizer]")
    check_dataset_config(recipe.dataset or DatasetConfig(), f"{where}, [dataset]")
    _check_mixed_sources(recipe, where)
    for kind, ref in _steps(recipe.corpus, tokenizer):
        _check_step(kind, ref, where)
    if train:
        check_train_config(train, f"{where}, [train]")
        for name, options in train.backend.items():
            _check_backend(name, options, where)
        check_model(train.model, train.objective, next_sentence=train.next_sentence)
    _check_executor(recipe.executor, where)
    if recipe.tiny:
        with_tiny_values(recipe, where)
    for warning in find_unused_keys(recipe.corpus, tokenizer, train):
        _log.warning("%s: %s", where, warning)


def _read_toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError as error:
        fix = "check the path; `jprep recipes` lists the recipes that come with jprep"
        raise ConfigError("there is no such recipe", where=str(path), fix=fix) from error
    except IsADirectoryError as error:
        fix = _directory_fix(path)
        raise ConfigError("expected a recipe file, got a directory", where=str(path), fix=fix) from error
    except OSError as error:
        raise ConfigError(f"cannot read the recipe: {error.strerror}", where=str(path), fix="check the path") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _not_a_recipe(path, error) from error


def _not_a_recipe(path: Path, error: UnicodeDecodeError | tomllib.TOMLDecodeError) -> ConfigError:
    """Return the error for a file that cannot be read as a recipe."""
    if reader := reader_of(str(path)):
        return _text_as_recipe(path, reader)
    if isinstance(error, UnicodeDecodeError):
        return _not_utf8(path, error.object)
    fix = "docs/recipes.md has an example of each section"
    return ConfigError(f"cannot read the recipe: {error}", where=str(path), fix=fix)


def _text_as_recipe(path: Path, reader: str) -> ConfigError:
    """Return the error for a file of text that is given as a recipe."""
    file, source = shlex.quote(str(path)), "wikipedia" if reader == "wikipedia" else "text"
    fix = (
        f"to build a corpus of it:  jprep corpus build --{reader} {file}\n"
        f"         to write a recipe:  jprep init --from {source} --input {file}"
    )
    return ConfigError("expected a recipe, a .toml file", where=str(path), fix=fix)


def _not_utf8(path: Path, data: bytes) -> ConfigError:
    """Return the error for a recipe in another encoding, which is detected."""
    encoding, copy = encoding_of(data, complete=True), path.with_suffix(".utf-8.toml")
    name = "cp932" if encoding == UTF8 else iconv_name(encoding)
    fix = f"convert it: iconv -f {name} -t utf-8 {shlex.quote(str(path))} > {shlex.quote(str(copy))}"
    return ConfigError("cannot read the recipe: it is not UTF-8", where=str(path), fix=fix)


def _directory_fix(folder: Path) -> str:
    """Return what to give instead of a directory."""
    if found := sorted(folder.glob("*.toml")):
        return f"give a recipe in it, e.g. {shlex.quote(str(found[0]))}"
    if (folder / "job.json").exists():
        return f"to resume a run, give its recipe again; `jprep export {shlex.quote(str(folder))}` exports its model"
    return "`jprep recipes` lists the recipes that come with jprep"


def _resolve_paths(raw: Any, folder: Path) -> Any:
    """Return plain data with the paths that begin with `RECIPE_DIRECTORY` resolved."""
    if isinstance(raw, dict):
        return {key: _resolve_paths(value, folder) for key, value in raw.items()}
    if isinstance(raw, list):
        return [_resolve_paths(value, folder) for value in raw]
    relative = isinstance(raw, str) and raw.startswith(RECIPE_DIRECTORY)
    return (folder / raw.removeprefix(RECIPE_DIRECTORY)).as_posix() if relative else raw


def _check_mixed_sources(recipe: Recipe, where: str) -> None:
    dataset, sources = recipe.dataset or DatasetConfig(), [source.name for source in recipe.corpus.sources]
    if dataset.mix and sources:
        check_sources(dataset.mix, sources, f"{where}, [dataset.mix]", held_out=dataset.held_out)


def _steps(corpus: CorpusConfig, tokenizer: TokenizerConfig) -> Iterator[tuple[str, StepRef]]:
    for source in corpus.sources:
        yield "reader", source.reader
        yield from (("filter", ref) for ref in source.filters or [])
        yield from (("normalizer", ref) for ref in source.normalizers or [])
    yield from (("normalizer", ref) for ref in [*corpus.normalizers, *(tokenizer.normalizers or [])])
    for own in tokenizer.source_list:
        yield "reader", own.reader
        yield from (("normalizer", ref) for ref in own.normalizers)
        yield "segmenter", own.segmenter or "none"
    yield from (("filter", ref) for ref in corpus.filters)
    yield from (("signal", ref) for ref in [*corpus.signals, *corpus.line_signals])
    yield from (("splitter", corpus.splitter), ("segmenter", corpus.segmenter))


def _check_step(kind: str, ref: StepRef, where: str) -> None:
    name = step_name(ref)
    if _is_in_file(kind, name, where) or not _is_known(kind, name, where) or isinstance(ref, str):
        return
    try:
        step = plugins().get(kind, name)
    except JprepError:  # it needs a package that is not installed here
        return
    parse_config(step_options(ref), step.Config, where=f"{where}, {kind} {name!r}")


def _is_in_file(kind: str, name: str, where: str) -> bool:
    """Return whether a file defines a step. The file is checked, and is run only by the command that needs the step."""
    try:
        reference = _file_of(kind, name)
        return bool(reference and check_file(reference))
    except ConfigError as error:
        raise error.replace(where=error.where or f"{where}, {kind}") from error


def _file_of(kind: str, name: str) -> FileReference | None:
    """Return the class of a file that a step's name refers to; None for the name of a registered step."""
    return None if kind not in BASES or name in plugins().names(kind) else parse_reference(name)


def _check_executor(ref: ExecutorRef | None, where: str) -> None:
    """Check the options of `[executor]`; those for an executor that `--executor` names are checked with it."""
    name = ref if isinstance(ref, str) else (ref or {}).get("use")
    if name is None or (isinstance(name, str) and not _is_known("executor", name, where)):
        return
    try:
        choose_executor(ref)
    except ConfigError as error:
        raise error.replace(where=f"{where}, {error.where}") from error
    except JprepError:  # it needs a package that is not installed here
        return


def _check_backend(name: str, options: Mapping[str, Any], where: str) -> None:
    if not _is_known("backend", name, f"{where}, [train.backend]"):
        return
    try:
        backend = load_backend(name)
    except JprepError:
        return
    try:
        parse_options(backend, options)
    except ConfigError as error:
        raise error.replace(where=f"{where}, {error.where}") from error


def _is_known(kind: str, name: str, where: str) -> bool:
    """Return whether an installed plugin has the name. A name that is similar to an installed one is a typo."""
    known = plugins().names(kind)
    if name not in known and (close := difflib.get_close_matches(name, known, n=1)):
        raise ConfigError(f"no {kind} is called {name!r}", where=where, fix=f"did you mean {close[0]!r}?")
    return name in known
