"""Checks before the first step of a recipe: that each step gets what it needs, and that all is installed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from jprep.corpus.stages.read_plan import CorpusSteps
from jprep.corpus.stages.sources import check_sources
from jprep.corpus.store import read_manifest
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.preprocessing.part_columns import check_recipe_columns
from jprep.dataset.sampling.masking import check_shares
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import RECIPE
from jprep.errors import ConfigError, Setting
from jprep.hub.location import is_hub_name
from jprep.io.inputs.paths import expand_patterns, is_local
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.steps import OTHER_WORK, Step
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import check_boundaries
from jprep.tokenizer.special_tokens import special_tokens
from jprep.train.backend import Backend
from jprep.train.backend_loading import backend_options, load_backend
from jprep.train.job.best import check_best
from jprep.train.job.config import TrainConfig, parse_train_config
from jprep.train.job.data_summary import missing_mask_token
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
    """Find out whether given directories are what the steps can use.

    Args:
        steps: the steps that will be done.
        corpus: directory of a given corpus.
        tokenizer: directory of a given tokenizer; a name on the Hub is left to `check_steps`.

    Raises:
        ConfigError: one of them is not finished or does not exist, or the tokenizer has no end-of-document token.
    """
    if corpus:
        read_manifest(corpus)
    if tokenizer and "dataset" in steps and not is_hub_name(str(tokenizer)):
        DocumentEncoder(load_tokenizer(tokenizer))


def check_steps(
    recipe: Recipe,
    steps: list[Step],
    backend_name: str,
    *,
    corpus: Path | None = None,
    tokenizer: Path | None = None,
    here: bool = True,
) -> None:
    """Find out before the first step whether what the later ones need fits and is installed.

    Args:
        recipe: the recipe, checked by `jprep.pipeline.recipe.load_recipe`.
        steps: the steps that will be done.
        backend_name: the backend that trains.
        corpus: directory of a given corpus, see `check_given`.
        tokenizer: directory of a given tokenizer, or its name on the Hub.
        here: whether they will be done on this machine, now: then inputs, names on the Hub and the mirror are checked,
            too. Directories that the recipe or an option names are always checked.

    Raises:
        ConfigError: there is no such input, step, backend, pretrained model or bucket, a value of `[train]` is out of
            its range or not for this task or backend, a schedule does not fit the steps, the corpus will not have the
            words or the values that a later step needs, or the tokenizer has no mask token.
        MachineError: a segmenter or the backend is not installed, or the mirror cannot be written to.
    """
    train = parse_train_config(recipe.train, "[train]") if recipe.train and "train" in steps else None
    if tokenizer and is_hub_name(str(tokenizer)):
        tokenizer = Path(load_tokenizer(tokenizer).folder) if here else None
        check_given(steps, None, tokenizer)
    if train:
        _check_training(train, load_backend(backend_name), here=here)
        if train.task in ("mlm", "rtd"):
            _check_mask_token(train.task, recipe.tokenizer or TokenizerConfig(), steps, tokenizer)
    if "corpus" in steps:
        _check_corpus(recipe, steps, corpus)
    if here:
        check_inputs(recipe, steps, corpus_given=corpus is not None)
    if train:
        backend = load_backend(backend_name)
        worker_python(backend, backend_options(train, backend))
        if here and train.checkpoint.mirror:
            check_mirror(train.checkpoint.mirror)


def check_inputs(recipe: Recipe, steps: list[Step], *, corpus_given: bool = False) -> None:
    """Check that local inputs exist, of sources that download nothing, and the rows of `[train]`; and their columns.

    Args:
        recipe: the recipe.
        steps: the steps that will be done.
        corpus_given: whether a finished corpus is given.

    Raises:
        ConfigError: one does not exist, or lacks a column that its source reads.
    """
    sources = recipe.corpus.sources if "corpus" in steps and not corpus_given else []
    for source in sources:
        if not source.files:
            expand_patterns([path for path in source.paths if is_local(path)])
    check_sources(sources)
    train = recipe.train if "train" in steps else None
    for path in (*train.data, *train.validation_data) if train else ():
        if not Path(path).is_file():
            fix = "check train.data and train.validation_data"
            raise ConfigError("there is no such file", where=path, fix=fix, setting=Setting("data"))


def _check_training(train: TrainConfig, backend: Backend, *, here: bool) -> None:
    """Raise ConfigError if a section has a value that is wrong whatever the data are."""
    backend_options(train, backend)
    check_task(train.task, backend.name, backend.tasks)
    check_features(train, backend.name, backend.features)
    check_best(train)
    check_train_ranges(train)
    check_shares(train.masking)
    if train.steps:
        check_schedule(train.schedule, train.steps)
    fold_count(train)
    if train.model.init and (here or not is_hub_name(train.model.init)):
        check_init(train)


def _check_mask_token(task: str, config: TokenizerConfig, steps: list[Step], tokenizer: Path | None) -> None:
    """Raise ConfigError if the tokenizer has, or will have, no mask token."""
    if "tokenizer" in steps:
        has_one = bool(config.extended or special_tokens(config).mask)
    else:
        has_one = not tokenizer or bool(load_tokenizer(tokenizer).special.mask)
    if not has_one:
        raise missing_mask_token(task)


def _check_corpus(recipe: Recipe, steps: list[Step], given: Path | None) -> None:
    """Raise ConfigError if the corpus lacks what later steps need of it."""
    if given:
        words = bool(read_manifest(given).totals.get("words"))
    else:
        with closing(CorpusSteps(recipe.corpus, recipe.corpus.segmenter)) as built:
            mix = recipe.dataset.mix if recipe.dataset else None
            check_recipe_columns(mix.parts if mix else [], recipe.corpus, built.signals)
            words = built.segmenter.marks
    tokenizer = recipe.tokenizer or TokenizerConfig()
    if "tokenizer" not in steps or tokenizer.source_list:
        return
    try:
        check_boundaries(tokenizer, str(given or recipe.name), words=words)
    except ConfigError as error:
        raise error.replace(fix='set corpus.segmenter, or tokenizer.boundaries = "none"') from error
