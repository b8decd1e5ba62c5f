"""What the output directories of a recipe hold before its first step, and whether its steps can go on from there.

A step compares existing work with everything that it is made from when its turn comes, which may be after days of
earlier steps. What is known before is compared at once: options, and earlier outputs that are finished.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from jprep.corpus.api import Corpus
from jprep.corpus.made_from import options_made_from, without_inputs
from jprep.corpus.stages.read import ReadStage
from jprep.corpus.store import FORMAT, MANIFEST, read_manifest
from jprep.dataset.manifest import DatasetConfig, read_dataset
from jprep.dataset.pack import corpus_fields, option_fields, tokenizer_fields
from jprep.dataset.preprocessing.encode import EncodeStage
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.fingerprint import plain
from jprep.engine.output_kinds import CORPUS, DATASET, STATE, TOKENIZER, OutputKind, find_outputs
from jprep.engine.runner import STAGE_JSON, refuse_mismatch
from jprep.errors import ConfigError, MachineError
from jprep.io.verified_files import read_if_exists
from jprep.pipeline.output_paths import MadeStep, OutputPaths
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.steps import fix_other_work
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import CARD_JSON, read_own_card
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.train import option_fields as tokenizer_option_fields
from jprep.tokenizer.training_data import CorpusTrainingData

Progress = Literal["new", "begun", "finished"]

_BEGUN: dict[MadeStep, str] = {
    "corpus": f"{ReadStage.name}/{STAGE_JSON}",
    "tokenizer": TOKENIZER.made_from_file,
    "dataset": f"{EncodeStage.name}/{STAGE_JSON}",
}
"""The file in `STATE` that says what unfinished work is made from."""

_KINDS: dict[MadeStep, OutputKind] = {"corpus": CORPUS, "tokenizer": TOKENIZER, "dataset": DATASET}
_MANIFESTS: dict[MadeStep, Callable[[Path], Any]] = {
    "corpus": read_manifest,
    "tokenizer": read_own_card,
    "dataset": read_dataset,
}


def check_existing(recipe: Recipe, steps: Iterable[MadeStep], paths: OutputPaths) -> None:
    """Refuse existing outputs that were made with other options than the recipe's, or from other finished outputs.

    Input files are not compared; the steps do that. An extended tokenizer is not compared at all.

    Args:
        recipe: the recipe.
        steps: the steps that will be done; their outputs are compared.
        paths: the directories of all outputs, and of those that are given.

    Raises:
        MismatchError: one was made from something else; the message names what differs.
        DamagedError: the manifest of a finished output is damaged.
        MachineError: a file cannot be read.
    """
    for step in steps:
        folder: Path = getattr(paths, step)
        if theirs := _recorded_fields(step, folder):
            ours = plain(_wanted_fields(step, recipe, paths))
            common = ours.keys() & theirs.keys()
            try:
                refuse_mismatch({key: ours[key] for key in common}, {key: theirs[key] for key in common}, folder)
            except ConfigError as error:
                raise error.replace(fix=fix_other_work(error, step, folder)) from error


def progress_of(step: MadeStep, folder: Path) -> Progress:
    """Return how far the output of a step is."""
    if (folder / _KINDS[step].manifest).exists():
        return "finished"
    return "begun" if find_outputs(folder) else "new"


def _recorded_fields(step: MadeStep, folder: Path) -> dict[str, Any]:
    """Return what an existing output is made from, as far as `_wanted_fields` may have it; {} if that is not known."""
    if progress_of(step, folder) == "finished":
        found: dict[str, Any] = _MANIFESTS[step](folder).made_from
    else:
        found = _read_begun(folder / STATE / _BEGUN[step])
        found = {"documents": found} if found and step == "corpus" else found
    if not found or step == "tokenizer":
        return found
    if step == "dataset":
        return {"mix": {}} | found
    return without_inputs(found) if found["documents"]["format"] == FORMAT else {}


def _read_begun(path: Path) -> dict[str, Any]:
    """Return what unfinished work is made from; {} without any, or if the file is damaged: the step writes it again."""
    data = read_if_exists(path)
    with contextlib.suppress(ValueError):
        return decode_checksummed(data, dict[str, Any]) if data else {}
    return {}


def _wanted_fields(step: MadeStep, recipe: Recipe, paths: OutputPaths) -> dict[str, Any]:
    """Return what the output of a step would be made from, as far as it is known before the first step."""
    if step == "tokenizer":
        return _tokenizer_fields(recipe, paths.corpus)
    if step == "dataset":
        return _dataset_fields(recipe, paths)
    with contextlib.suppress(MachineError):  # a segmenter of another machine
        return options_made_from(recipe)
    return {}


def _tokenizer_fields(recipe: Recipe, corpus: Path) -> dict[str, Any]:
    config, dataset = recipe.tokenizer or TokenizerConfig(), recipe.dataset or DatasetConfig()
    fields = tokenizer_option_fields(config)
    if not config.source_list and (corpus / MANIFEST).exists():
        fields["material"] = CorpusTrainingData(Corpus(corpus), dataset.held_out).fields()
    return fields


def _dataset_fields(recipe: Recipe, paths: OutputPaths) -> dict[str, Any]:
    sources, fields = [source.name for source in recipe.corpus.sources], dict[str, Any]()
    if (paths.corpus / MANIFEST).exists():
        corpus = Corpus(paths.corpus)
        sources = [source["name"] for source in corpus.manifest.sources]
        fields["corpus"] = corpus_fields(corpus)
    if (paths.tokenizer / CARD_JSON).exists():
        fields["tokenizer"] = tokenizer_fields(load_tokenizer(paths.tokenizer))
    return {"mix": {}} | option_fields(recipe.dataset or DatasetConfig(), sources) | fields
