"""Compare a recipe with its existing outputs before the first step.

A step compares existing work with everything that it is made from when its turn comes, which may be after days of
earlier steps. What is known before is compared at once: options, and earlier outputs that are finished.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from jprep.corpus.api import Corpus
from jprep.corpus.build import corpus_directory
from jprep.corpus.made_from import options_made_from, without_inputs
from jprep.corpus.stages.read import ReadStage
from jprep.corpus.store import FORMAT, MANIFEST, read_manifest
from jprep.dataset.manifest import DatasetConfig, read_dataset
from jprep.dataset.pack import corpus_fields, dataset_directory, tokenizer_fields
from jprep.dataset.pack import option_fields as dataset_option_fields
from jprep.dataset.preprocessing.encode import EncodeStage
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import TOKENIZER, find_outputs
from jprep.engine.runner import STAGE_JSON, read_made_from, refuse_mismatch
from jprep.errors import ConfigError, MachineError
from jprep.io.lock import is_locked
from jprep.pipeline.output_paths import MadeStep, OutputPaths
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.steps import fix_other_work
from jprep.tokenizer.card import CARD_JSON, read_card, read_own_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.external.files import is_external
from jprep.tokenizer.train import option_fields as tokenizer_option_fields
from jprep.tokenizer.train import tokenizer_directory
from jprep.tokenizer.training_data import CorpusTrainingData

OutputState = Literal["new", "unfinished", "finished"]

_OF_BASE = ("model", "extends")
"""Keys of `[tokenizer]` that depend on the tokenizer that is extended, and on its place."""

_DIRECTORIES: dict[MadeStep, Callable[[Path], OutputDirectory]] = {
    "corpus": corpus_directory,
    "tokenizer": tokenizer_directory,
    "dataset": dataset_directory,
}
_MANIFESTS: dict[MadeStep, Callable[[Path], Any]] = {
    "corpus": read_manifest,
    "tokenizer": read_own_card,
    "dataset": read_dataset,
}
_BEGUN: dict[MadeStep, str] = {
    "corpus": f"{ReadStage.name}/{STAGE_JSON}",
    "tokenizer": TOKENIZER.made_from_file,
    "dataset": f"{EncodeStage.name}/{STAGE_JSON}",
}
"""The file in `.state` that says what unfinished work is made from."""


def check_existing(recipe: Recipe, steps: Iterable[MadeStep], paths: OutputPaths) -> None:
    """Refuse existing outputs that were made with other options than the recipe's, or from other finished outputs.

    Left to the steps: input files, `tokenizer.sources`, the tokenizer that another one extends, and outputs that a
    process is working on.

    Args:
        recipe: the recipe.
        steps: the steps that will be done; their outputs are compared.
        paths: the directories of all outputs, and of those that are given.

    Raises:
        MismatchError: one was made from something else; the message names what differs.
        ConfigError: a directory holds something else.
        DamagedError: the manifest of a finished output is damaged.
        MachineError: a file cannot be read.
    """
    for step in steps:
        out = _DIRECTORIES[step](getattr(paths, step))
        try:
            _check_output(step, out, recipe, paths)
        except ConfigError as error:
            raise error.replace(fix=fix_other_work(error, step, out.path)) from error


def output_state(step: MadeStep, folder: Path) -> OutputState:
    """Return how far the output of a step is; what was only planned is `new`."""
    out = _DIRECTORIES[step](folder)
    if out.finished:
        return "finished"
    is_ours = any(found.kind is out.kind for found in find_outputs(folder))
    return "unfinished" if is_ours and not out.has_only_plans() else "new"


def _check_output(step: MadeStep, out: OutputDirectory, recipe: Recipe, paths: OutputPaths) -> None:
    """Refuse the output of a step that is not what the recipe makes."""
    out.check()
    state = output_state(step, out.path)
    if state == "new" or is_locked(out.path / out.kind.lock):
        return
    theirs = _MANIFESTS[step](out.path).made_from if state == "finished" else _read_begun(step, out)
    theirs = _comparable(step, theirs, recipe)
    ours = plain(_wanted_fields(step, recipe, paths)) if theirs else {}
    common = ours.keys() & theirs.keys()
    refuse_mismatch({key: ours[key] for key in common}, {key: theirs[key] for key in common}, out.path)


def _read_begun(step: MadeStep, out: OutputDirectory) -> dict[str, Any]:
    """Return what unfinished work is made from, as a manifest has it; {} if that is not known."""
    found = read_made_from(out.state / _BEGUN[step], warn=False)
    return {"documents": found} if found and step == "corpus" else found


def _comparable(step: MadeStep, made_from: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Return what an existing output is made from in the form of `_wanted_fields`; {} if it cannot be compared."""
    if not made_from:
        return {}
    if step == "corpus":
        is_known = made_from.get("documents", {}).get("format") == FORMAT
        return without_inputs(made_from) if is_known else {}
    if step == "tokenizer" and recipe.tokenizer and recipe.tokenizer.extended:
        config = made_from.get("config", {})
        return made_from | {"config": {key: value for key, value in config.items() if key not in _OF_BASE}}
    return {"mix": {}} | made_from  # a dataset without parts has no such field, and parts may be added or removed


def _wanted_fields(step: MadeStep, recipe: Recipe, paths: OutputPaths) -> dict[str, Any]:
    """Return what the output of a step would be made from, as far as it is known before the first step."""
    if step == "tokenizer":
        return _wanted_tokenizer(recipe, paths.corpus)
    if step == "dataset":
        return _wanted_dataset(recipe, paths)
    with contextlib.suppress(MachineError):  # a segmenter of another machine
        return options_made_from(recipe)
    return {}


def _wanted_tokenizer(recipe: Recipe, corpus: Path) -> dict[str, Any]:
    config, dataset = recipe.tokenizer or TokenizerConfig(), recipe.dataset or DatasetConfig()
    fields = tokenizer_option_fields(config)
    if not config.source_list and (corpus / MANIFEST).exists():
        fields["material"] = CorpusTrainingData(Corpus(corpus), dataset.held_out).fields()
    return fields


def _wanted_dataset(recipe: Recipe, paths: OutputPaths) -> dict[str, Any]:
    sources, fields = [source.name for source in recipe.corpus.sources], dict[str, Any]()
    if (paths.corpus / MANIFEST).exists():
        corpus = Corpus(paths.corpus)
        sources = [source["name"] for source in corpus.manifest.sources]
        fields["corpus"] = corpus_fields(corpus)
    if _is_tokenizer(paths.tokenizer):
        fields["tokenizer"] = tokenizer_fields(read_card(paths.tokenizer))
    return {"mix": {}} | dataset_option_fields(recipe.dataset or DatasetConfig(), sources) | fields


def _is_tokenizer(folder: Path) -> bool:
    """Return whether there is a tokenizer: not for a name on the Hub, or one that will be trained."""
    return (folder / CARD_JSON).exists() or is_external(folder)
