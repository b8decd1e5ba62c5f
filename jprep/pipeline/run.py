"""Run a whole recipe: fetch its inputs, build the corpus, train the tokenizer, pack the dataset, train and export."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.download.fetch import fetch
from jprep.corpus.store import read_manifest
from jprep.dataset.manifest import DatasetConfig
from jprep.dataset.pack import pack
from jprep.engine.executors.choice import make_executor
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.runner import Executor, ProgressReporter, SilentProgress
from jprep.errors import ConfigError
from jprep.pipeline.early_checks import check_given, check_steps, check_work
from jprep.pipeline.existing_outputs import check_existing
from jprep.pipeline.init_tokenizer import init_tokenizer_note, tokenizer_of_init
from jprep.pipeline.output_paths import WORK, MadeStep, OutputPaths, output_paths
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.run_result import RunResult
from jprep.pipeline.steps import Step, fix_other_work, missing_section, pending_downloads, select_steps
from jprep.pipeline.submitted_training import plan_submission, train_in_job
from jprep.pipeline.tiny_inputs import pending_partial_downloads, with_tiny_inputs
from jprep.pipeline.tiny_scale import Scale, kept_init, list_changes, load_at_scale
from jprep.plurals import counted
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.sources.data import training_data
from jprep.tokenizer.train import train as train_tokenizer
from jprep.train.backend_loading import default_backend_name
from jprep.train.exporting import export_default, find_default_export
from jprep.train.launcher.cross_validation import check_destinations, fold_count, fold_directories, train_folds
from jprep.train.launcher.launch import PreparedRun, RunInputs, prepare_run
from jprep.train.launcher.launch import train as train_model
from jprep.train.run.directory import EXPORT
from jprep.train.trackers.check import check_trackers

DOWNLOADS = Path("downloads")
"""The directory that inputs are downloaded to."""


class Download(NamedTuple):
    """A file to download.

    Attributes:
        path: where it goes.
        url: where it comes from.
        partial: whether only its first megabytes are downloaded, at scale tiny.
    """

    path: Path
    url: str
    partial: bool = False


class RunPlan(NamedTuple):
    """The plan of a run, before its first step.

    Attributes:
        recipe: the recipe, scaled down if a scale was asked for.
        steps: its steps, in order.
        paths: the directories of their outputs.
        run: the run directory, or the parent of those of the folds.
        backend: the backend that trains.
        workers: processes; None for as many as there are cores.
        executor: name of the executor; None for the recipe's.
        corpus_given: whether a finished corpus was given.
        tokenizer_given: whether a tokenizer was given, or comes with `train.model.init`.
        downloads: the directory of downloads.
        scale: the scale, or None.
        changes: a line for each key that the scale changed.
        missing_section: the section whose absence ends the steps early, or "".
        notes: what a user should know before the first step.
    """

    recipe: Recipe
    steps: list[Step]
    paths: OutputPaths
    run: Path
    backend: str
    workers: int | None = None
    executor: str | None = None
    corpus_given: bool = False
    tokenizer_given: bool = False
    downloads: Path = DOWNLOADS
    scale: Scale | None = None
    changes: tuple[str, ...] = ()
    missing_section: str = ""
    notes: tuple[str, ...] = ()

    @property
    def runs(self) -> list[Path]:
        """The run directories: one for each fold, or the only one."""
        folds = fold_count(self.recipe.train) if self.recipe.train else 0
        return fold_directories(self.run, folds) or [self.run]

    def output(self, step: Step) -> Path:
        """Return the output directory of a step; `*` stands for the number of a fold."""
        if step == "export":
            return self.run / ("" if self.runs == [self.run] else "fold-*") / EXPORT
        return self.run if step == "train" else getattr(self.paths, step)

    @property
    def own_steps(self) -> list[MadeStep]:
        """The steps before the training whose outputs are not given."""
        made: tuple[MadeStep, ...] = ("corpus", "tokenizer", "dataset")
        return [step for step in made if step in self.steps and not (step == "corpus" and self.corpus_given)]

    def pending_downloads(self) -> list[Download]:
        """Return what will be downloaded."""
        if self.corpus_given:
            return []
        partial = pending_partial_downloads(self.recipe, self.downloads) if self.scale else {}
        found = [Download(path, url, partial=True) for path, url in partial.items()]
        for name, file in pending_downloads(self.recipe, self.downloads).items():
            if file.url not in partial.values():
                found.append(Download(self.downloads / name, file.url))
        return found


class RunReporter:
    """Receives the progress of a run. The methods print nothing; override them as needed."""

    def step_started(self, plan: RunPlan, step: Step) -> None:
        """A step begins."""

    def step_finished(self, step: Step, seconds: float) -> None:
        """A step is done, after so many seconds."""

    def result(self, text: str) -> None:
        """A line that summarizes what a step made."""

    def note(self, text: str) -> None:
        """Something that a user should know."""

    def download_started(self, url: str, size: int, path: Path) -> None:
        """A download begins; its size in bytes, negative where the server does not say."""

    def downloading(self, name: str, done: int, total: int) -> None:
        """So many bytes of a file are downloaded."""

    @contextlib.contextmanager
    def executor(self, plan: RunPlan) -> Iterator[tuple[Executor, ProgressReporter]]:
        """Give the executor of a step's tasks, and the reporter of their progress.

        Args:
            plan: the plan of the run, which names the executor.
        """
        with closing(make_executor(plan.recipe.executor, plan.executor, plan.workers, lambda: False)) as executor:
            yield executor, SilentProgress()

    def command(self) -> list[str]:
        """Return the arguments of `jprep` that do the same, for the job of a training; [] trains in this process."""
        return []

    def train(self, prepared: PreparedRun) -> int:
        """Train a prepared run; return its exit code."""
        return train_model(prepared, say=self.note)

    def trained(self, prepared: PreparedRun) -> None:
        """A training is finished."""

    def folds_trained(self, run: Path) -> None:
        """The trainings of all folds are finished."""


def run(
    recipe: Recipe | str | Path,
    *,
    set: Iterable[str] | Mapping[str, Any] = (),
    scale: Scale | None = None,
    backend: str | None = None,
    corpus: str | Path | None = None,
    tokenizer: str | Path | None = None,
    until: Step = "export",
    workers: int | None = None,
    executor: str | None = None,
    work: str | Path = WORK,
    downloads: str | Path = DOWNLOADS,
    reporter: RunReporter | None = None,
) -> RunResult:
    """Do every step of a recipe: fetch, corpus, tokenizer, dataset, training, export; the library form of `jprep run`.

    Finished steps are not repeated. A run that was interrupted is resumed by the same call.

        result = jprep.run("data_recipes/jawiki.toml", set={"train.batch": 64}, scale="tiny")
        tokenizer = jprep.load_tokenizer(result.paths.tokenizer)

    Args:
        recipe: a recipe, or the path of its file.
        set: keys to change: `a.b=value` strings, or a mapping of `a.b` to values.
        scale: `tiny` cuts model, steps and data, to try the recipe anywhere.
        backend: the backend that trains; by default the one that the recipe has options for, else `torch`.
        corpus: a finished corpus, for a recipe without sources.
        tokenizer: a finished tokenizer, instead of the recipe's own.
        until: the last step.
        workers: processes; by default as many as there are cores.
        executor: name of the executor of the tasks; by default the recipe's, else `local`.
        work: the parent of the recipe's output directory.
        downloads: the directory that inputs are downloaded to.
        reporter: receives the progress; by default nothing is reported.

    Returns:
        the directories of all outputs, and the exit code of the training.

    Raises:
        ConfigError: the recipe is wrong, or an output directory holds something else.
        JprepError: a step failed; see its kinds. Finished work stays, and the same call resumes.
    """
    plan = plan_run(
        recipe,
        set=set,
        scale=scale,
        backend=backend,
        corpus=corpus,
        tokenizer=tokenizer,
        until=until,
        workers=workers,
        executor=executor,
        work=work,
        downloads=downloads,
    )
    return execute_plan(plan, reporter or RunReporter())


def plan_run(
    recipe: Recipe | str | Path,
    *,
    set: Iterable[str] | Mapping[str, Any] = (),
    scale: Scale | None = None,
    backend: str | None = None,
    corpus: str | Path | None = None,
    tokenizer: str | Path | None = None,
    until: Step = "export",
    workers: int | None = None,
    executor: str | None = None,
    work: str | Path = WORK,
    downloads: str | Path = DOWNLOADS,
) -> RunPlan:
    """Read and check a recipe, and work out its steps and outputs; nothing is written. See `run`.

    Raises:
        ConfigError: the recipe is wrong, it has neither sources nor a given corpus, a given output cannot be used, or
            an output directory holds something else.
    """
    loaded, full = load_at_scale(recipe, set, scale)
    own = None if tokenizer else tokenizer_of_init(loaded, Path(work), kept_init(full))
    tokenizer = tokenizer or own
    steps = select_steps(loaded, until, corpus=bool(corpus), tokenizer=bool(tokenizer))
    paths = output_paths(Path(work), loaded.name)
    check_work(Path(work), Path(work) / loaded.name)
    chosen = backend or default_backend_name(loaded.train)
    given = {name: Path(path) for name, path in (("corpus", corpus), ("tokenizer", tokenizer)) if path}
    check_given(steps, given.get("corpus"), given.get("tokenizer"))
    return RunPlan(
        recipe=loaded,
        steps=steps,
        paths=paths._replace(**given),
        run=paths.runs / chosen,
        backend=chosen,
        workers=workers,
        executor=executor,
        corpus_given=bool(corpus),
        tokenizer_given=bool(tokenizer),
        downloads=Path(downloads),
        scale=scale,
        changes=tuple(list_changes(full, loaded)),
        missing_section=missing_section(loaded, steps, until),
        notes=(init_tokenizer_note(own),) if own else (),
    )


def check_plan(plan: RunPlan, *, here: bool = True) -> None:
    """Check before the first step all that can be checked then; see `jprep.pipeline.early_checks.check_steps`."""
    corpus = plan.paths.corpus if plan.corpus_given else None
    tokenizer = plan.paths.tokenizer if plan.tokenizer_given else None
    check_steps(plan.recipe, plan.steps, plan.backend, corpus=corpus, tokenizer=tokenizer, here=here)


def execute_plan(plan: RunPlan, reporter: RunReporter) -> RunResult:
    """Do the steps of a plan, one after another, until one fails; see `run`."""
    check_plan(plan)
    for text in plan.notes:
        reporter.note(text)
    if plan.recipe.train and "train" in plan.steps:
        check_destinations(plan.recipe.train, reporter.note)
        check_trackers(plan.run, plan.recipe.train.trackers, reporter.note)
        plan_submission(plan, reporter.command())  # checks [train.submit]
    if plan.scale and "corpus" in plan.steps and not plan.corpus_given:
        plan = plan._replace(recipe=with_tiny_inputs(plan.recipe, plan.downloads, reporter.note))
    check_existing(plan.recipe, plan.own_steps, plan.paths)
    code = next((code for step in plan.steps if (code := run_step(plan, step, reporter))), 0)
    done = not code and "export" in plan.steps
    exports = [folder for each in plan.runs if (folder := find_default_export(each))] if done else []
    return RunResult(plan.steps, plan.paths, plan.runs if "train" in plan.steps else [], exports, code)


def run_step(plan: RunPlan, step: Step, reporter: RunReporter) -> int:
    """Do one step of a plan, or verify that it is done; return the exit code.

    Raises:
        ConfigError: the output directory has different work, or something else.
    """
    begun = time.monotonic()
    reporter.step_started(plan, step)
    try:
        if code := _STEPS[step](plan, reporter):
            return code
    except ConfigError as error:
        raise error.replace(fix=fix_other_work(error, step, plan.output(step))) from error
    reporter.step_finished(step, time.monotonic() - begun)
    return 0


def _corpus(plan: RunPlan, reporter: RunReporter) -> int:
    if not plan.corpus_given:
        _fetch(plan, reporter)
        with reporter.executor(plan) as (executor, progress):
            build(plan.recipe, plan.paths.corpus, executor, progress)
    totals = {"documents": 0, "bytes": 0} | read_manifest(plan.paths.corpus).totals
    reporter.result(f"{counted(totals['documents'], 'document')}, {counted(totals['bytes'], 'byte')} of text")
    return 0


def _fetch(plan: RunPlan, reporter: RunReporter) -> None:
    """Download missing inputs; each is announced, with its size, before its first byte."""
    files = pending_downloads(plan.recipe, plan.downloads)
    announced: list[str] = []

    def progress(name: str, done: int, total: int) -> None:
        if name not in announced:
            announced.append(name)
            reporter.download_started(files[name].url, total, plan.downloads / name)
        reporter.downloading(name, done, total)

    if files:
        fetch(files.values(), plan.downloads, progress=progress)


def _tokenizer(plan: RunPlan, reporter: RunReporter) -> int:
    config = plan.recipe.tokenizer or TokenizerConfig()
    dataset = plan.recipe.dataset or DatasetConfig()
    cache = plan.paths.tokenizer / HASH_CACHE
    material = training_data(config, plan.recipe.name, lambda: Corpus(plan.paths.corpus), cache, dataset.held_out)
    with reporter.executor(plan) as (executor, progress):
        card = train_tokenizer(material, config, plan.paths.tokenizer, executor, progress)
    reporter.result(card.signature)
    return 0


def _dataset(plan: RunPlan, reporter: RunReporter) -> int:
    paths, config = plan.paths, plan.recipe.dataset or DatasetConfig()
    with reporter.executor(plan) as (executor, progress):
        dataset = pack(Corpus(paths.corpus), paths.tokenizer, config, paths.dataset, executor, progress)
    reporter.result(", ".join(f"{split.name} {split.tokens:,} tokens" for split in dataset.splits))
    if left_out := [f"{counted(each.documents, 'document')} of {each.source}" for each in dataset.left_out]:
        reporter.result(f"in no part of the mixture, left out: {', '.join(left_out)}")
    return 0


def _train(plan: RunPlan, reporter: RunReporter) -> int:
    recipe, tokenizer = plan.recipe, plan.paths.tokenizer
    if recipe.train is None:
        raise ConfigError("the recipe has no [train]", where=recipe.name)
    if job := plan_submission(plan, reporter.command()):
        return train_in_job(plan, job, reporter)
    inputs = RunInputs(recipe.name, plan.backend, plan.run, tokenizer)
    if plan.runs != [plan.run]:
        code = train_folds(recipe.train, inputs, train_one=reporter.train)
        if not code:
            reporter.folds_trained(plan.run)
        return code
    dataset = plan.paths.dataset if "dataset" in plan.steps else None
    mix = recipe.dataset.mix if recipe.dataset else None
    prepared = prepare_run(recipe.train, inputs._replace(dataset=dataset, mix=mix))
    code = reporter.train(prepared)
    if not code:
        reporter.trained(prepared)
    return code


def _export(plan: RunPlan, reporter: RunReporter) -> int:
    for each in plan.runs:
        reporter.result(str(export_default(each)))
    return 0


_STEPS = {"corpus": _corpus, "tokenizer": _tokenizer, "dataset": _dataset, "train": _train, "export": _export}
