"""The steps of a recipe."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Literal, get_args

from jprep.corpus.config import RemoteFile
from jprep.corpus.download.fetch import files_by_name
from jprep.dataset.manifest import DatasetConfig, describe_held_out
from jprep.errors import ConfigError, MismatchError
from jprep.io.inputs.paths import all_exist
from jprep.pipeline.recipe import Recipe
from jprep.plurals import counted
from jprep.tokenizer.config import TokenizerConfig
from jprep.train.job.config import ModelConfig
from jprep.train.launcher.cross_validation import fold_count
from jprep.train.models import FAMILIES, PRESETS

Step = Literal["corpus", "tokenizer", "dataset", "train", "export"]

OTHER_WORK = "give another --work, or move this directory away"
"""What to do where `jprep run` finds something else."""

STEPS: tuple[Step, ...] = get_args(Step)


def select_steps(recipe: Recipe, until: Step, *, corpus: bool = False, tokenizer: bool = False) -> list[Step]:
    """Return the steps of a recipe in order: those that it has sections for, and what these depend on.

    Args:
        recipe: the recipe.
        until: the last step that is wanted.
        corpus: whether a finished corpus is given.
        tokenizer: whether a finished tokenizer is given.

    Raises:
        ConfigError: a step needs a corpus, and the recipe has no source.
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
    """Return the steps that a recipe has sections for, and what these depend on; see `select_steps`."""
    wanted: set[Step] = {"train", "export"} if recipe.train else set()
    if recipe.dataset or (recipe.train and not recipe.train.data):
        wanted.add("dataset")
    if (wanted or recipe.tokenizer) and not tokenizer:
        wanted.add("tokenizer")
    trains = "tokenizer" in wanted and (recipe.tokenizer or TokenizerConfig()).needs_corpus
    if trains or "dataset" in wanted or recipe.corpus.sources:
        wanted.add("corpus")
    return wanted


def missing_section(recipe: Recipe, steps: list[Step], until: Step) -> str:
    """Return the section whose absence ends the steps before `until`, or ""."""
    after = STEPS[STEPS.index(steps[-1]) + 1 if steps else 0 : STEPS.index(until) + 1]
    return next((f"[{step}]" for step in after if step != "export" and not getattr(recipe, step)), "")


def pending_downloads(recipe: Recipe, folder: Path) -> dict[str, RemoteFile]:
    """Return the files that sources without local inputs need and that are not downloaded yet, by name."""
    wanted = [file for source in recipe.corpus.sources if not all_exist(source.paths) for file in source.files]
    return {name: file for name, file in files_by_name(wanted).items() if not (folder / name).exists()}


def _is_transformers(model: ModelConfig) -> bool:
    """Return whether transformers has a class for a model, as far as its section says: not for a plugin's family."""
    kind = str((PRESETS.get(model.preset, {}) | model.config).get("model_type"))
    return FAMILIES.plugin_of(kind) is None


def _describe_splits(dataset: DatasetConfig) -> str:
    test = f", {describe_held_out(dataset.test)} for the test split" if dataset.test else ""
    return f"{describe_held_out(dataset.validation)} for validation{test}"


def summarize_steps(
    recipe: Recipe, steps: list[Step], backend: str, *, corpus: bool = False
) -> Iterator[tuple[Step, str]]:
    """Yield each step with a line that says what it will do; `corpus` is whether one is given."""
    tokenizer, dataset = recipe.tokenizer or TokenizerConfig(), recipe.dataset or DatasetConfig()
    sources = ", ".join(source.name for source in recipe.corpus.sources)
    kind = f"extends {tokenizer.extended}" if tokenizer.extended else tokenizer.model
    lines: dict[Step, str] = {
        "corpus": "as given" if corpus else f"from {sources}",
        "tokenizer": f"{kind}, {tokenizer.vocab_size:,} ids",
        "dataset": _describe_splits(dataset),
        "export": "for transformers" if not recipe.train or _is_transformers(recipe.train.model) else "for jprep",
    }
    if "train" in steps and (train := recipe.train):
        model = train.model.preset or train.model.config.get("model_type", "") or train.model.init
        length = counted(train.steps, "step") if train.steps else counted(train.epochs, "epoch")
        lines["train"] = f"{model} for {train.task}, {length} of {counted(train.batch, 'row')}, with {backend}"
        if folds := fold_count(train):
            lines["train"] += f", for each of {folds} folds"
    yield from ((step, lines[step]) for step in steps)


def fix_other_work(error: ConfigError, step: Step, output: Path) -> str:
    """Return the fix of a step's error in terms of `jprep run`, which has neither `-o` nor `--restart`.

    Args:
        error: the error of a step.
        step: the step.
        output: its output directory.
    """
    if error.options and not isinstance(error, MismatchError):
        return OTHER_WORK
    own = Path(error.where).absolute().is_relative_to(output.absolute())
    if own and step != "train" and error.options:
        return f"give another --work, or delete {output} to repeat this step"
    return f"{error.fix}; `jprep run` has --work in place of -o" if "-o" in error.options else error.fix
