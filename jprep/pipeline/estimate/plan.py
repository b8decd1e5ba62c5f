"""Estimate what a recipe takes: measure a sample, scale it up, and simulate the stages."""

from __future__ import annotations

import itertools
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.engine.executors.choice import LOCAL, choose_executor
from jprep.engine.fingerprint import fingerprint, plain
from jprep.errors import ConfigError
from jprep.io.machine import cpu_count, memory
from jprep.pipeline.estimate.assumptions import list_assumptions, list_input_warnings, list_shortages
from jprep.pipeline.estimate.disk import StageDisk, follow_disk
from jprep.pipeline.estimate.loads.task_loads import StageLoad
from jprep.pipeline.estimate.loads.workload import Workload, scale_up
from jprep.pipeline.estimate.measuring.calibration import (
    SECONDS,
    Calibration,
    CalibrationFolders,
    Note,
    calibrate,
    calibration_folders,
)
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes, measure_sources
from jprep.pipeline.estimate.result import TRAIN, InputEstimate, RecipeEstimate, StageEstimate, StepEstimate
from jprep.pipeline.estimate.simulation import Cluster, StageTime, scale, simulate
from jprep.pipeline.estimate.training import TrainingEstimate, estimate_training
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.run import RunPlan

SCHEDULER_S = 30.0
"""Seconds that a scheduler is assumed to take until the first task of a stage begins."""

_TASK_SCRIPT_S = 1.0  # seconds of CPU that a job of a scheduler takes to read the stage and its tasks: assumed
_ERROR = 0.15  # relative error of a stage's time besides the variation among tasks: assumed


class PlanOptions(NamedTuple):
    """What a plan is made for.

    Attributes:
        workers: numbers of processes; the plan is for the first one.
        storage_rate: bytes a second of the shared file system, for reading and for writing; 0 for this disk's.
        file_rate: files a second that it commits; 0 for this disk's.
        scheduler: seconds until the first task of a stage begins, for executors other than the local one.
        seconds: seconds of CPU to process the sample.
        input_sizes: stored bytes of the files of some sources, by name, where they are not known otherwise.
    """

    workers: Sequence[int] = ()
    storage_rate: float = 0.0
    file_rate: float = 0.0
    scheduler: float = SCHEDULER_S
    seconds: float = SECONDS
    input_sizes: Mapping[str, float] = {}


def estimate_recipe(plan: RunPlan, options: PlanOptions, note: Note = lambda _: None) -> RecipeEstimate:
    """Estimate what a recipe takes.

    Args:
        plan: the plan of the run, see `jprep.pipeline.run.plan_run`.
        options: what the plan is made for.
        note: called with a line for each part of the measurement.

    Raises:
        ConfigError: the recipe has no sources, or an input does not exist.
        JprepError: a step failed on the sample.
    """
    if "corpus" not in plan.steps or plan.corpus_given:
        fix = "give a recipe with [[corpus.sources]]; `jprep train --dry-run` plans a training alone"
        raise ConfigError("there is no corpus to plan for", where=plan.recipe.name, fix=fix)
    sizes = measure_sources(plan.recipe, plan.downloads, options.input_sizes)
    given = None if "tokenizer" in plan.steps else plan.paths.tokenizer
    with calibration_folders(plan.paths.corpus.parent) as folders:
        calibration = calibrate(plan.recipe, plan.steps, folders, tokenizer=given, seconds=options.seconds, note=note)
        work = scale_up(plan.recipe, calibration, sizes)
        training = _training(plan, folders, given, work)
    return _Estimate(plan, options, calibration, sizes, work, training).result()


def recipe_fingerprint(recipe: Recipe) -> str:
    """Return the fingerprint of a recipe, without where its tasks run."""
    return fingerprint(plain(msgspec.to_builtins(msgspec.structs.replace(recipe, executor=None))))


def _training(
    plan: RunPlan, folders: CalibrationFolders, tokenizer: Path | None, work: Workload
) -> TrainingEstimate | None:
    if "train" not in plan.steps:
        return None
    dataset, growth = (folders.dataset, work.growth) if "dataset" in plan.steps else (None, 1.0)
    given = tokenizer or folders.tokenizer
    return estimate_training(plan.recipe, plan.backend, folders.run, given, dataset, growth)


class _Estimate:
    """Computes the estimate from what was measured."""

    def __init__(
        self,
        plan: RunPlan,
        options: PlanOptions,
        calibration: Calibration,
        sizes: list[SourceSizes],
        work: Workload,
        training: TrainingEstimate | None,
    ) -> None:
        self._plan, self._options, self._calibration, self._sizes = plan, options, calibration, sizes
        self._work, self._training = work, training
        self._executor, _ = choose_executor(plan.recipe.executor, plan.executor)
        counts = list(options.workers) or [plan.workers or cpu_count()]
        cores = float(cpu_count()) if self._is_local else math.inf
        self._cluster = self._make_cluster(counts[0], cores)
        self._clusters = [self._make_cluster(count, math.inf) for count in counts]

    def result(self) -> RecipeEstimate:
        """Return the estimate."""
        steps = [*self._steps(), *self._training_step()]
        every = follow_disk(self._work.stages)
        kept = every[-1].after if every else 0.0
        trained = self._training.disk if self._training else 0
        peak = round(max(max((each.most for each in every), default=0.0), kept + trained))
        inputs = [self._input(number) for number in range(len(self._sizes))]
        times = scale(self._work.stages, self._clusters) if len(self._clusters) > 1 else []
        estimate = RecipeEstimate(
            name=self._plan.recipe.name,
            recipe=recipe_fingerprint(self._plan.recipe),
            workers=self._cluster.workers,
            executor=self._executor,
            inputs=inputs,
            steps=steps,
            training=_describe(self._training) if self._training else "",
            peak_disk=peak,
            machine=self._calibration.machine,
            scaling=times,
            calibration=self._calibration.seconds,
            warnings=[],
            assumptions=list_assumptions(self._calibration, inputs, self._executor, self._options.scheduler),
        )
        free = shutil.disk_usage(_existing(self._plan.paths.corpus)).free
        shortages = list_shortages(estimate, free, memory())
        more = list(list_input_warnings(self._plan.recipe, estimate))
        if self._training:
            shortages, more = shortages + self._training.shortages, more + self._training.warnings
        return msgspec.structs.replace(estimate, warnings=shortages + more, fits=not shortages)

    @property
    def _is_local(self) -> bool:
        return self._executor == LOCAL

    def _make_cluster(self, workers: int, cores: float) -> Cluster:
        machine, options = self._calibration.machine, self._options
        start = 0.0 if self._is_local else options.scheduler + machine.start + _TASK_SCRIPT_S
        return Cluster(
            workers,
            options.storage_rate or machine.read,
            options.storage_rate or machine.write,
            options.file_rate or machine.files,
            machine.task,
            start,
            cores,
        )

    def _steps(self) -> Iterator[StepEstimate]:
        for step, group in itertools.groupby(self._work.stages, lambda load: load.step):
            loads = list(group)
            times = [simulate(load, self._cluster) for load in loads]
            yield self._step(step, loads, times, follow_disk(loads))

    def _step(self, step: str, loads: list[StageLoad], times: list[StageTime], disks: list[StageDisk]) -> StepEstimate:
        start = self._calibration.machine.start if self._is_local and self._cluster.workers > 1 else 0.0
        wall = start + sum(time.wall for time in times)
        error = sum(min(0.9, _ERROR + 2 * load.spread) * time.wall for load, time in zip(loads, times, strict=True))
        largest, workers = max(load.memory for load in loads), self._cluster.workers
        running = max(min(workers, load.tasks) * load.memory for load in loads)
        longest = max(times, key=lambda time: time.wall)
        return StepEstimate(
            step=step,
            wall=wall,
            low=max(0.0, wall - error),
            high=wall + error,
            cpu=sum(load.cpu for load in loads) + self._start_cpu(loads),
            disk=round(max(disk.most for disk in disks)),
            result=round(disks[-1].after),
            files=sum(load.files + load.tasks for load in loads),
            memory=largest,
            total_memory=running + (largest if workers > 1 else 0),
            jobs=0 if self._is_local else sum(min(workers, load.tasks) for load in loads),
            limit=longest.limit,
            stages=[_stage(*each) for each in zip(loads, times, disks, strict=True)],
        )

    def _start_cpu(self, loads: list[StageLoad]) -> float:
        """Return the seconds of CPU to start processes and to load dictionaries."""
        workers = self._cluster.workers
        start = self._calibration.machine.start if workers > 1 or not self._is_local else 0.0
        each = [min(workers, load.tasks) for load in loads]
        starts = max(each, default=0) if self._is_local else sum(each)
        return start * starts + sum(count * load.startup for count, load in zip(each, loads, strict=True))

    def _training_step(self) -> Iterator[StepEstimate]:
        if (found := self._training) is None:
            return
        seconds = found.seconds or 0.0
        yield StepEstimate(
            step=TRAIN,
            wall=seconds,
            low=seconds / 2,
            high=seconds * 2,
            cpu=0.0,
            disk=found.disk,
            result=found.disk,
            files=0,
            memory=found.process_memory,
            total_memory=found.total_memory,
            limit="training" if found.seconds is not None else "unknown",
        )

    def _input(self, number: int) -> InputEstimate:
        each = self._sizes[number]
        return InputEstimate(
            name=each.name,
            files=len(each.sizes) + each.unknown,
            size=each.total,
            unknown=each.unknown,
            to_download=each.to_download,
            stand_in=each.name in self._calibration.stand_ins,
            factor=self._work.factors[number],
            division=self._calibration.divisions[number],
        )


def _describe(training: TrainingEstimate) -> str:
    texts = [training.time, f"memory: {training.memory}"]
    return texts[0] if training.memory == training.time else "; ".join(texts)


def _stage(load: StageLoad, time: StageTime, disk: StageDisk) -> StageEstimate:
    return StageEstimate(
        name=load.name,
        tasks=load.tasks,
        wall=time.wall,
        cpu=load.cpu,
        limit=time.limit,
        busy=time.busy,
        memory=load.memory,
        disk=round(disk.most),
    )


def _existing(path: Path) -> Path:
    """Return the nearest directory above a path that exists."""
    parents: Iterable[Path] = path.absolute().parents
    return next(each for each in parents if each.is_dir())
