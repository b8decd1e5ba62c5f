"""Estimate the training step of a recipe before its dataset exists, from the dataset of the sample."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.errors import JprepError
from jprep.pipeline.recipe import Recipe
from jprep.train.job.config import Job, TrainConfig
from jprep.train.launcher.launch import PreparedRun, RunInputs, prepare_run
from jprep.train.planning.duration import duration_warnings, estimate_duration
from jprep.train.planning.memory_fit import MemoryFit, default_target, judge_plan
from jprep.train.planning.storage import HostMemory, estimate_host_memory, estimate_storage

_MANY_STEPS = 1_000_000  # of a job that is built only to be read: so that its schedule fits


class TrainingEstimate(NamedTuple):
    """What the training takes, as `jprep train --dry-run` computes it.

    Attributes:
        seconds: how long; None if that is not known.
        disk: bytes of checkpoints and weights.
        time: how long, as text.
        memory: the memory of the devices, as text.
        process_memory: bytes of main memory of each process; 0 if that is not known.
        total_memory: those of all processes.
        steps: number of steps.
        warnings: what a user should change.
        shortages: which memory is too small. The disk is that of all steps, so it is not judged here.
    """

    seconds: float | None
    disk: int
    time: str
    memory: str
    process_memory: int
    total_memory: int
    steps: int
    warnings: list[str]
    shortages: list[str]


def estimate_training(
    recipe: Recipe, backend: str, run: Path, tokenizer: Path, dataset: Path | None, growth: float
) -> TrainingEstimate:
    """Estimate the training on the whole dataset.

    Args:
        recipe: the recipe, with a section `[train]`.
        backend: the backend's name.
        run: a run directory; nothing is written there.
        tokenizer: the tokenizer of the sample, or a finished one.
        dataset: the dataset of the sample; None for labelled rows.
        growth: how many times as many samples the whole training split has.
    """
    train = recipe.train or TrainConfig(task="clm")
    counted = train if train.steps else msgspec.structs.replace(train, steps=_MANY_STEPS, epochs=0.0)
    try:
        prepared = prepare_run(counted, RunInputs(recipe.name, backend, run, tokenizer, dataset), dry=True)
    except JprepError as error:
        unknown = f"unknown: {error.what}"
        warnings = [f"the training cannot be planned: {error.what}"]
        return TrainingEstimate(None, 0, unknown, unknown, 0, 0, train.steps, warnings, [])
    return _estimate(prepared, _grown(prepared.job, train, growth))


def _grown(job: Job, train: TrainConfig, growth: float) -> Job:
    """Return the job with the samples and the steps of the whole dataset."""
    samples = max(1, round(growth * job.samples))
    steps = train.steps or math.ceil(train.epochs * samples / train.batch)
    return msgspec.structs.replace(job, samples=samples, steps=steps)


def _estimate(prepared: PreparedRun, job: Job) -> TrainingEstimate:
    plan, host = prepared.plan, prepared.host
    time, storage = estimate_duration(job, plan, host), estimate_storage(job, plan, host, prepared.run)
    memory, fit = estimate_host_memory(job, plan, host), judge_plan(plan, host)
    hosts = (plan.target or default_target(plan, host)).hosts
    total = memory.total * hosts if memory else (plan.memory + plan.host_memory) * plan.processes
    return TrainingEstimate(
        seconds=time.seconds,
        disk=storage.total,
        time=time.text,
        memory=fit.text,
        process_memory=total // max(1, plan.processes),
        total_memory=total,
        steps=job.steps,
        warnings=duration_warnings(job, time),
        shortages=list(_shortages(fit, memory)),
    )


def _shortages(fit: MemoryFit, memory: HostMemory | None) -> Iterator[str]:
    if fit.fits is False:
        ways = "a smaller model or micro-batch, shorter rows (train.length), or more devices"
        yield f"the training takes {fit.text}; use {ways}"
    if memory and memory.warning:
        yield memory.warning
