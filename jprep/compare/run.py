"""Compare recipes: build their data, train their models, score held-out texts, and judge."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.compare.arms import RecipeArm, load_arms
from jprep.compare.data.building import ArmData
from jprep.compare.data.left_out import LeftOut, find_left_out
from jprep.compare.data.preparation import Preparation, prepare
from jprep.compare.layout import PLAN, WORK, comparison_directory, scores_path
from jprep.compare.models.answers import EncodedTask, answer_tasks, encode_tasks
from jprep.compare.models.scoring import EncodedItems, encode_items, score_texts
from jprep.compare.models.sizes import find_size
from jprep.compare.models.training import (
    ModelScores,
    Trained,
    check_backend,
    open_client,
    read_scores,
    steps_of,
    train_model,
    training_curve,
    write_scores,
)
from jprep.compare.options import CompareOptions
from jprep.compare.planning import (
    Calibration,
    StoredPlan,
    choose_plan,
    expected_seconds,
    flops_per_character,
    needs_calibration,
    read_plan,
    reference_size,
    write_plan,
)
from jprep.compare.result import Comparison, ComparisonPlan, read_comparison
from jprep.compare.summary import ArmOutcome, Summary, bits_per_character
from jprep.compare.tasks.task_files import Task, files_of_task, load_task
from jprep.engine.executors.local import Local
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.runner import Executor, ProgressReporter, SilentProgress, read_made_from
from jprep.errors import ConfigError
from jprep.io.atomic import file_sha256, remove_tree
from jprep.io.failpoints import failpoint
from jprep.io.machine import cpu_count
from jprep.train.backend_loading import load_backend
from jprep.train.launcher.launch import PreparedRun
from jprep.train.launcher.launch import train as train_run

VERSION = 1
"""Increased when the same recipes and options would give different scores than before."""

_CALIBRATION_STEPS = 40


class CompareReporter:
    """Receives the progress of a comparison. The methods print nothing; override them as needed."""

    def stage(self, text: str) -> None:
        """A part of the work begins."""

    def note(self, text: str) -> None:
        """Something that a user should know."""

    def planned(self, plan: ComparisonPlan, preparation: Preparation) -> None:
        """The plan is made, or was made by an earlier call."""

    def scored(self, arm: str, seed: int, bits_per_character: float) -> None:
        """A model is trained and scored, now or by an earlier call."""

    @contextlib.contextmanager
    def executor(self, workers: int | None) -> Iterator[tuple[Executor, ProgressReporter]]:
        """Give the executor of tasks, and the reporter of their progress."""
        with closing(Local(workers or cpu_count())) as executor:
            yield executor, SilentProgress()

    def train(self, prepared: PreparedRun) -> int:
        """Train a prepared run; return its exit code."""
        return train_run(prepared, say=self.note)


def compare(
    recipes: Sequence[Path],
    folder: Path,
    options: CompareOptions,
    reporter: CompareReporter | None = None,
    *,
    restart: bool = False,
) -> Comparison:
    """Compare recipes by the models that they train; the library form of `jprep compare`.

    Finished work is not repeated: the same call resumes a comparison, or verifies a finished one.

    Args:
        recipes: files of at least two recipes.
        folder: output directory.
        options: budget, seeds, size, and what is judged.
        reporter: receives the progress.
        restart: delete earlier work in the output directory first.

    Raises:
        ConfigError: a recipe or an option is wrong, or the backend cannot score texts.
        MismatchError: the output directory has another comparison, or an input has changed.
        MachineError: the backend is not installed, or finds no GPU.
        Interrupted: the user stopped it.
        JprepError: a step failed.
    """
    arms, made_from = check_comparison(recipes, options)
    out = comparison_directory(folder)
    with out.claim():
        if restart:
            out.restart()
            remove_tree(folder / WORK)
        if out.finished:
            found = read_comparison(folder)
            out.verify(made_from, found.made_from, found.files, "compare again with --restart")
            return found
        check_backend(options.backend, options.budget.device)
        _resume(out, made_from)
        tasks = load_tasks(options.tasks)
        result = _Comparing(arms, tasks, made_from, out, options, reporter or CompareReporter()).run()
        out.seal(result, keep={file.path for file in result.files})
        out.clean()
        return result


def _resume(out: OutputDirectory, made_from: dict[str, Any]) -> None:
    """Resume the work. Until a model is scored, corrected recipes and options need no restart.

    What lies in `work/` has names by fingerprint, so nothing of other recipes is used.
    """
    begun = read_made_from(out.state / out.kind.made_from_file)
    if begun and begun != made_from and not any(out.path.glob("scores/*.json")):
        (out.state / PLAN).unlink(missing_ok=True)
        out.forget_made_from()
    out.resume(made_from)


def check_comparison(recipes: Sequence[Path], options: CompareOptions) -> tuple[list[RecipeArm], dict[str, Any]]:
    """Check recipes and options; return the arms, and everything that the result is made from.

    Raises:
        ConfigError: a recipe or an option is wrong, or the backend cannot score texts.
    """
    arms = load_arms(recipes, options.overrides)
    if options.size:
        find_size(options.size)
    if not load_backend(options.backend).scores:
        fix = "--backend torch"
        raise ConfigError(f"the backend {options.backend} cannot score texts", where="--backend", fix=fix)
    chosen = {
        "budget": options.budget.text,
        "seeds": options.seeds,
        "size": options.size,
        "characters": options.characters,
        "backend": options.backend,
    }
    files = {
        "tasks": _hashes([file for path in options.tasks for file in files_of_task(path)]),
        "held_out": _hashes(options.held_out),
    }
    named = {
        arm.name: {
            "corpus": msgspec.to_builtins(arm.corpus),
            "tokenizer": msgspec.to_builtins(arm.tokenizer),
            "dataset": msgspec.to_builtins(arm.dataset),
        }
        for arm in arms
    }
    return arms, plain({"version": VERSION, "options": chosen, **files, "recipes": named})


def load_tasks(paths: Sequence[Path]) -> list[Task]:
    """Read the files of tasks.

    Raises:
        ConfigError: a file does not exist or cannot be read as a task, or two tasks have the same name.
        InputError: an item is malformed.
    """
    tasks = [load_task(path) for path in paths]
    names = [task.name for task in tasks]
    if repeated := [name for name in names if names.count(name) > 1]:
        fix = "rename one of the files, or set `name` in its TOML file"
        raise ConfigError(f"two tasks are called {repeated[0]!r}", where="--tasks", fix=fix)
    return tasks


def _hashes(paths: Sequence[Path]) -> list[dict[str, str]]:
    for path in paths:
        if not path.is_file():
            what = "expected a file, got a directory" if path.is_dir() else "there is no such file"
            raise ConfigError(what, where=str(path), fix="check the path")
    return [{"name": path.name, "sha256": file_sha256(path)} for path in paths]


class _Inputs(NamedTuple):
    """What the models of an arm are judged on, as the arm's pipeline sees it."""

    texts: EncodedItems
    tasks: list[EncodedTask]


class _Comparing:
    """One call of `compare`. The output directory is locked."""

    def __init__(
        self,
        arms: list[RecipeArm],
        tasks: list[Task],
        made_from: dict[str, Any],
        out: OutputDirectory,
        options: CompareOptions,
        reporter: CompareReporter,
    ) -> None:
        self._arms, self._tasks, self._made_from, self._out = arms, tasks, made_from, out
        self._options, self._reporter = options, reporter
        self._begun = time.monotonic()
        self._runs = out.path / WORK / "runs"

    def run(self) -> Comparison:
        """Do all steps."""
        stored = self._out.state / PLAN
        decided = read_plan(stored)
        ready = self._prepare(decided)
        write_plan(stored, decided or StoredPlan(share=ready.share))
        self._reporter.stage("looking for held-out texts and items of tasks in the training texts")
        left_out = find_left_out(ready, self._tasks)
        texts = [item.text for item in ready.held_out]
        encoded = {number: encode_items(texts, ready.data[number].load_tokenizer()) for number in ready.distinct}
        plan = decided.plan if decided else None
        if plan is None:
            self._forget_scores()
            plan = self._plan(ready, encoded)
            write_plan(stored, StoredPlan(share=ready.share, plan=plan))
        self._reporter.planned(plan, ready)
        outcomes = self._outcomes(plan, ready, encoded, left_out)
        summary = Summary(self._arms, self._tasks, ready, left_out, plan, outcomes)
        return summary.result(self._made_from, fingerprint(self._made_from), self._out.path)

    def _prepare(self, decided: StoredPlan | None) -> Preparation:
        share = decided.share if decided else None
        with self._reporter.executor(self._options.workers) as (executor, progress):
            return prepare(self._arms, self._out.path, self._options, share, executor, progress, self._reporter.stage)

    def _forget_scores(self) -> None:
        """Delete scores whose plan is lost, as its file is damaged: a new one may have models of another size."""
        if needs_calibration(self._options):
            for path in self._out.path.glob("scores/*.json"):
                path.unlink()

    def _plan(self, ready: Preparation, encoded: dict[int, EncodedItems]) -> ComparisonPlan:
        arms = [ready.data[number] for number in ready.distinct]
        calibration = self._calibrate(ready, encoded[0]) if needs_calibration(self._options) else None
        left = self._options.budget.seconds - (time.monotonic() - self._begun)
        plan = choose_plan(self._options, arms, calibration, left)
        if calibration and (expected := expected_seconds(plan, arms, calibration)) > left:
            times = f"about {expected / 60:.1f} min, but {max(0.0, left) / 60:.1f} min of the budget are left"
            self._reporter.note(f"note: training and scoring will take {times}")
        return plan

    def _calibrate(self, ready: Preparation, texts: EncodedItems) -> Calibration:
        """Measure a short training and the scoring after it."""
        self._reporter.stage("measuring the speed of this machine")
        size, data = reference_size(self._options), ready.data[0]
        plan = choose_plan(self._options._replace(size=size.name, characters=1, seeds=1), [data], None, 0)
        folder = self._out.state / "calibration"
        remove_tree(folder)
        begun = time.monotonic()
        trained = train_model(data, plan, _CALIBRATION_STEPS, 1, folder, self._reporter.train)
        inputs = _Inputs(texts, encode_tasks(self._tasks, data.load_tokenizer(), size.length))
        self._answer(trained, inputs, plan)
        step = trained.seconds_per_step() or trained.seconds / _CALIBRATION_STEPS
        overhead = time.monotonic() - begun - _CALIBRATION_STEPS * step
        characters = size.rows * size.length / data.tokens_per_character
        work = flops_per_character(size, data.manifest.vocab_size, data.tokens_per_character) * characters
        remove_tree(folder)
        return Calibration(rate=work / step, overhead=max(overhead, 0.0))

    def _outcomes(
        self, plan: ComparisonPlan, ready: Preparation, encoded: dict[int, EncodedItems], left_out: LeftOut
    ) -> dict[int, ArmOutcome]:
        """Train and score all models: all arms with one seed, then with the next."""
        length = plan.size.length
        inputs = {
            number: _Inputs(texts, encode_tasks(self._tasks, ready.data[number].load_tokenizer(), length))
            for number, texts in encoded.items()
        }
        for number, each in inputs.items():
            self._note_tasks(self._arms[number].name, each.tasks)
        found: dict[int, list[ModelScores]] = {number: [] for number in ready.distinct}
        for seed in plan.seeds:
            for number in ready.distinct:
                scores = self._model(plan, ready.data[number], inputs[number], number, seed)
                found[number].append(scores)
                bits = bits_per_character(scores.bits, encoded[number].restoring, ready.held_out, left_out.scored)
                self._reporter.scored(self._arms[number].name, seed, bits)
        return {number: ArmOutcome(scores, encoded[number]) for number, scores in found.items()}

    def _note_tasks(self, arm: str, tasks: Sequence[EncodedTask]) -> None:
        """Say which items are not judged as they stand in their file."""
        for task, rows in tasks:
            if rows.shortened:
                what = f"{rows.shortened:,} of {len(task.items):,} items are longer than the model's rows"
                self._reporter.note(f"note: {task.name}, {arm}: {what}, and lose their beginning")
            if task.repeated and arm == self._arms[0].name:
                self._reporter.note(f"note: {task.name}: repeated items left out: {task.repeated:,}")

    def _model(self, plan: ComparisonPlan, data: ArmData, inputs: _Inputs, number: int, seed: int) -> ModelScores:
        """Return the scores of one model, from an earlier call if there are some."""
        path = self._out.path / scores_path(number, seed)
        if done := read_scores(path, data, seed):
            return done
        self._reporter.stage(f"training {self._arms[number].name} with seed {seed} of {len(plan.seeds)}")
        steps = steps_of(data, plan.size, plan.characters)
        trained = train_model(data, plan, steps, seed, self._runs, self._reporter.train)
        bits, tasks = self._answer(trained, inputs, plan)
        characters, losses = training_curve(trained, data)
        scores = ModelScores(
            key=data.key,
            seed=seed,
            job=trained.job.fingerprint,
            parameters=trained.job.parameters,
            bits=bits,
            tasks=tasks,
            characters=characters,
            losses=losses,
        )
        write_scores(path, scores)
        failpoint("compare.scored")
        return scores

    def _answer(
        self, trained: Trained, inputs: _Inputs, plan: ComparisonPlan
    ) -> tuple[list[float], dict[str, list[float]]]:
        """Return the bits of each held-out text, and the scores of each task's items."""
        with open_client(trained, plan.backend) as client:
            bits = [round(each, 6) for each in score_texts(client, inputs.texts, plan.size.length)]
            return bits, answer_tasks(client, inputs.tasks)
