"""Checks before the first step of a recipe: that each step gets what it needs, and that all is installed."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from jprep.corpus.config import Source
from jprep.corpus.stages.read_plan import CorpusSteps
from jprep.corpus.store import read_manifest
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.preprocessing.part_columns import check_recipe_columns
from jprep.dataset.sampling.masking import check_shares
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import RECIPE
from jprep.errors import ConfigError
from jprep.io.inputs.paths import expand_patterns, is_local
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.steps import OTHER_WORK, Step
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import check_boundaries
from jprep.tokenizer.special_tokens import special_tokens
from jprep.train.backend_loading import backend_options, load_backend
from jprep.train.job.best import check_best
from jprep.train.job.config import TrainConfig, parse_train_config
from jprep.train.job.features import check_features, check_task
from jprep.train.job.ranges import check_train_ranges
from jprep.train.launcher.cross_validation import fold_count
from jprep.train.launcher.environments import worker_python
from jprep.train.optimization.schedule import check_schedule
from jprep.train.pretrained.location import check_init
from jprep.train.uploads.mirror_url import check_mirror


def check_work(*folders: Path) -> None:
    """Check directories that contain the outputs of recipes; nothing is changed.

    Raises:
        ConfigError: one holds something else; the fix names `--work`.
        MachineError: one cannot be read.
    """
    for folder in folders:
        try:
            OutputDirectory(folder, RECIPE, shared=True).check()
        except ConfigError as error:
            raise error.replace(fix=OTHER_WORK) if "-o" in error.options else error from error


def check_given(steps: list[Step], corpus: Path | None, tokenizer: Path | None) -> None:
    """Find out whether given outputs are what the steps can use.

    Args:
        steps: the steps that will be done.
        corpus: directory of a given corpus.
        tokenizer: directory of a given tokenizer.

    Raises:
        ConfigError: one of them is not finished or does not exist, or the tokenizer has no end-of-document token.
    """
    if corpus:
        read_manifest(corpus)
    if tokenizer and "dataset" in steps:
        DocumentEncoder(load_tokenizer(tokenizer))


def check_steps(
    recipe: Recipe,
    steps: list[Step],
    backend_name: str,
    *,
    corpus: Path | None = None,
    tokenizer: Path | None = None,
) -> None:
    """Find out before the first step whether what the later ones need fits and is installed.

    Args:
        recipe: the recipe, checked by `jprep.pipeline.recipe.load_recipe`.
        steps: the steps that will be done.
        backend_name: the backend that trains.
        corpus: directory of a given corpus, see `check_given`.
        tokenizer: directory of a given tokenizer.

    Raises:
        ConfigError: there is no such input, step, backend, pretrained model or bucket, a value of `[train]` is out of
            its range or not for this task or backend, a schedule does not fit the steps, the corpus will not have the
            words or the values that a later step needs, or the tokenizer has no mask token.
        MachineError: a segmenter or the backend is not installed, or the mirror cannot be written to.
    """
    train = parse_train_config(recipe.train, "[train]") if recipe.train and "train" in steps else None
    if train:
        _check_training(train, backend_name)
        if train.task in ("mlm", "rtd"):
            _check_mask_token(recipe, steps, tokenizer)
    if "corpus" in steps:
        _check_corpus(recipe, steps, corpus)
    if train:
        backend = load_backend(backend_name)
        worker_python(backend, backend_options(train, backend))
        if train.checkpoint.mirror:
            check_mirror(train.checkpoint.mirror)


def _check_training(train: TrainConfig, backend_name: str) -> None:
    """Raise ConfigError if a section has a value that is wrong whatever the data are."""
    backend = load_backend(backend_name)
    backend_options(train, backend)
    check_task(train.task, backend.name, backend.tasks)
    check_features(train, backend.name, backend.features)
    check_best(train)
    check_train_ranges(train)
    check_shares(train.masking)
    if train.steps:
        check_schedule(train.schedule, train.steps)
    fold_count(train)
    if train.model.init:
        check_init(train)
    for path in (*train.data, *train.validation_data):
        if not Path(path).is_file():
            raise ConfigError("there is no such file", where=path, fix="check train.data and train.validation_data")


def _check_mask_token(recipe: Recipe, steps: list[Step], tokenizer: Path | None) -> None:
    """Raise ConfigError if the tokenizer has, or will have, no mask token."""
    config = recipe.tokenizer or TokenizerConfig()
    if "tokenizer" in steps:
        known = bool(config.extended or special_tokens(config).mask)
        where = "tokenizer.special"
    else:
        known, where = not tokenizer or bool(load_tokenizer(tokenizer).special.mask), str(tokenizer)
    if not known:
        what = f"{recipe.train.task if recipe.train else ''} needs a mask token, and the tokenizer has none"
        raise ConfigError(what, where=where, fix='special = ["roberta"] or ["bert"] has one')


def _check_corpus(recipe: Recipe, steps: list[Step], given: Path | None) -> None:
    """Raise ConfigError if the corpus lacks what later steps need of it, or inputs of it are missing."""
    if given:
        words = bool(read_manifest(given).totals.get("words"))
    else:
        with closing(CorpusSteps(recipe.corpus, recipe.corpus.segmenter)) as built:
            mix = recipe.dataset.mix if recipe.dataset else None
            check_recipe_columns(mix.parts if mix else [], recipe.corpus, built.signals)
            words = built.segmenter.marks
    tokenizer = recipe.tokenizer or TokenizerConfig()
    if "tokenizer" in steps and not tokenizer.source_list:
        check_boundaries(tokenizer, str(given or "corpus.segmenter"), words=words)
    if not given:
        _check_inputs(recipe.corpus.sources)


def _check_inputs(sources: Iterable[Source]) -> None:
    """Raise ConfigError if a local input of a source that downloads nothing does not exist."""
    for source in sources:
        if not source.files:
            expand_patterns([path for path in source.paths if is_local(path)])
