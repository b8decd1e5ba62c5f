"""Which steps a recipe has, and what is known of them before the first one begins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from jprep.corpus.config import Recipe, RemoteFile
from jprep.corpus.download.fetch import files_by_name
from jprep.corpus.stages.read import CorpusSteps
from jprep.dataset.manifest import dataset_config
from jprep.errors import ConfigError
from jprep.io.inputs.paths import all_exist
from jprep.tokenizer.config import tokenizer_config
from jprep.train.job.config import parse_train_config
from jprep.train.job.schedule import check_schedule
from jprep.train.launcher.cross_validation import fold_count
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.launch import backend_options, load_backend

Step = Literal["corpus", "tokenizer", "dataset", "train", "export"]

STEPS: tuple[Step, ...] = get_args(Step)


def select_steps(recipe: Recipe, until: Step, *, corpus: bool = False, tokenizer: bool = False) -> list[Step]:
    """The steps of a recipe, in order: those that it has sections for, and what these need before them.

    Args:
        recipe: the recipe.
        until: the last step that is wanted.
        corpus: whether a finished corpus is given.
        tokenizer: whether a finished tokenizer is given.

    Raises:
        ConfigError: a step needs a corpus, and there is neither one nor a source.
    """
    wanted = wanted_steps(recipe, tokenizer=tokenizer)
    steps = [step for step in STEPS[: STEPS.index(until) + 1] if step in wanted]
    if "corpus" in steps and not corpus and not recipe.corpus.sources:
        fix = "name a corpus with --corpus DIR, or give the recipe a [[corpus.sources]]"
        if "dataset" not in wanted and "train" in wanted:
            fix = f"name a tokenizer with --tokenizer DIR; else {fix}"
        raise ConfigError("the recipe has no corpus of its own", where=recipe.name, fix=fix)
    return steps


def wanted_steps(recipe: Recipe, *, tokenizer: bool = False) -> set[Step]:
    """The steps that a recipe has sections for, and what these need before them; see `select_steps`."""
    wanted: set[Step] = {"train", "export"} if recipe.train else set()
    if recipe.dataset or (recipe.train and not recipe.train.get("data")):
        wanted.add("dataset")
    if (wanted or recipe.tokenizer) and not tokenizer:
        wanted.add("tokenizer")
    if wanted & {"tokenizer", "dataset"} or recipe.corpus.sources:
        wanted.add("corpus")
    return wanted


def missing_section(recipe: Recipe, steps: list[Step], until: Step) -> str:
    """The section for want of which the steps end before `until`, or ""."""
    behind = STEPS[STEPS.index(steps[-1]) + 1 if steps else 0 : STEPS.index(until) + 1]
    return next((f"[{step}]" for step in behind if step != "export" and not getattr(recipe, step)), "")


def check_steps(recipe: Recipe, steps: list[Step], backend: str, *, corpus: bool = False) -> None:
    """Find out now what would stop the recipe after hours: misspelt keys, and what is not installed.

    Args:
        recipe: the recipe.
        steps: those that will be done.
        backend: of the training.
        corpus: whether a finished corpus is given.

    Raises:
        ConfigError: a section is wrong, or there is no such step or backend.
        MachineError: a segmenter or the backend is not installed.
    """
    if "corpus" in steps and not corpus:
        CorpusSteps(recipe.corpus, recipe.corpus.segmenter).close()
    if "tokenizer" in steps:
        tokenizer_config(recipe.tokenizer, "[tokenizer]")
    if "dataset" in steps:
        dataset_config(recipe.dataset, "[dataset]")
    if "train" in steps:
        train = parse_train_config(recipe.train, "[train]")
        if train.steps:
            check_schedule(train.schedule, train.steps)
        fold_count(recipe.train)
        half = load_backend(backend)
        worker_python(half, backend_options(train, half))


def pending_downloads(recipe: Recipe, folder: Path) -> dict[str, RemoteFile]:
    """The files of sources whose inputs are not there, but for those that lie in the folder of downloads; by name."""
    wanted = [file for source in recipe.corpus.sources if not all_exist(source.paths) for file in source.files]
    return {name: file for name, file in files_by_name(wanted).items() if not (folder / name).exists()}


def summarize_steps(recipe: Recipe, steps: list[Step], backend: str) -> Iterator[tuple[Step, str]]:
    """What each step will do, in a line."""
    tokenizer = tokenizer_config(recipe.tokenizer, "[tokenizer]")
    dataset = dataset_config(recipe.dataset, "[dataset]")
    sources = ", ".join(source.name for source in recipe.corpus.sources)
    lines: dict[Step, str] = {
        "corpus": f"of {sources}" if sources else "as it is given",
        "tokenizer": f"{tokenizer.model}, {tokenizer.vocab_size:,} ids",
        "dataset": f"{dataset.validation:g} of the documents for validation",
        "export": "for transformers",
    }
    if "train" in steps:
        train = parse_train_config(recipe.train, "[train]")
        model = train.model.preset or train.model.config.get("model_type", "")
        long = f"{train.steps:,} steps" if train.steps else f"{train.epochs:g} epochs"
        lines["train"] = f"{model} for {train.task}, {long} of {train.batch:,} rows, with {backend}"
        if folds := fold_count(recipe.train):
            lines["train"] += f", for each of {folds} folds"
    yield from ((step, lines[step]) for step in steps)
