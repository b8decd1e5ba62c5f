"""Train one small model and score the held-out texts with it."""

from __future__ import annotations

import time
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.compare.data.building import NAME, ArmData
from jprep.compare.models.sizes import MINIMUM_STEPS, SIZES, train_section, training_steps
from jprep.compare.result import ComparisonPlan, ModelSize
from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.errors import Interrupted, JprepError, MachineError
from jprep.io.atomic import write_atomic
from jprep.io.verified_files import read_if_exists
from jprep.train.backend_loading import backend_options, load_backend
from jprep.train.exporting import export_default
from jprep.train.inference.client import InferenceClient
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.launch import PreparedRun, RunInputs, prepare_run
from jprep.train.run.events import metric_curve, read_events
from jprep.train.run.status import read_status

Train = Callable[[PreparedRun], int]
"""Trains a prepared run to its end, or resumes it; returns the exit code."""

_POINTS = 100  # of a training curve


class ModelScores(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one model; the content of a file in `scores/`.

    Attributes:
        key: the arm's data, see `ArmData.key`.
        seed: the model's seed.
        job: fingerprint of its training job.
        parameters: all weights of the model.
        bits: bits of each held-out text as the arm's pipeline sees it.
        tasks: the score of each item, by the task's name.
        characters: characters seen at the points of the training curve.
        losses: training loss at these points, in bits per character.
    """

    key: str
    seed: int
    job: str
    parameters: int
    bits: list[float]
    tasks: dict[str, list[float]]
    characters: list[int]
    losses: list[float]


class Trained(NamedTuple):
    """A trained model.

    Attributes:
        job: its job.
        run: its run directory.
        export: its exported directory.
        seconds: how long training and export took.
    """

    job: Job
    run: Path
    export: Path
    seconds: float

    def seconds_per_step(self) -> float:
        """Return the seconds of a step without the first ones; 0 if unknown."""
        rate = read_status(self.run).rate
        return 1 / rate if rate else 0.0


def check_backend(backend_name: str, device: str) -> None:
    """Check that models can be trained on this machine, before any data is prepared.

    Raises:
        ConfigError: there is no such backend.
        MachineError: it is not installed, or finds no device of this kind.
    """
    backend = load_backend(backend_name)
    size = next(iter(SIZES.values()))
    options = backend_options(train_section(size, MINIMUM_STEPS, 1, backend_name, device), backend)
    worker_python(backend, options)
    if problem := next((finding for finding in backend.check(options) if finding.level == "error"), None):
        fix = "give the budget without gpu: to train on the CPU" if device == "gpu" else problem.fix
        raise MachineError(problem.what, where=f"--backend {backend_name}", fix=fix)


def run_folder(runs: Path, data: ArmData, plan: ComparisonPlan, steps: int, seed: int) -> Path:
    """Return the run directory of a model; another backend or device must not resume it."""
    return runs / f"{data.key}-{plan.backend}-{plan.device}-{plan.size.name}-{steps}-{seed}"


def train_model(data: ArmData, plan: ComparisonPlan, steps: int, seed: int, runs: Path, train: Train) -> Trained:
    """Train a model, or resume it, and export it.

    Args:
        data: what it is trained on.
        plan: size, backend and device.
        steps: its updates.
        seed: its seed.
        runs: the parent of run directories.
        train: trains a prepared run.

    Raises:
        Interrupted: the user stopped it; the same call resumes.
        JprepError: the training failed.
    """
    begun = time.monotonic()
    run = run_folder(runs, data, plan, steps, seed)
    section = train_section(plan.size, steps, seed, plan.backend, plan.device)
    prepared = prepare_run(section, RunInputs(NAME, plan.backend, run, data.tokenizer, data.dataset))
    if code := train(prepared):
        if code == Interrupted.exit_code:
            raise Interrupted("the comparison was interrupted; finished models are kept")
        fix = "its log says why; the same command resumes"
        raise JprepError(f"a training ended with exit code {code}", where=str(run / "log.txt"), fix=fix)
    return Trained(prepared.job, run, export_default(run), time.monotonic() - begun)


def open_client(trained: Trained, backend: str) -> InferenceClient:
    """Start an inference server with a trained model."""
    return InferenceClient(trained.export, backend)


def steps_of(data: ArmData, size: ModelSize, characters: int) -> int:
    """Return the steps in which a model sees a number of characters of an arm's text."""
    return training_steps(size, characters * data.tokens_per_character)


def training_curve(trained: Trained, data: ArmData) -> tuple[list[int], list[float]]:
    """Return characters seen and the loss in bits per character, at some points of the training."""
    steps, losses = metric_curve(read_events(trained.run))
    every = max(1, len(steps) // _POINTS)
    row = trained.job.train.batch * trained.job.train.length
    seen = [round(step * row / data.tokens_per_character) for step in steps[::every]]
    return seen, [round(loss / log(2) * data.tokens_per_character, 6) for loss in losses[::every]]


def read_scores(path: Path, data: ArmData, seed: int) -> ModelScores | None:
    """Return the scores that an earlier call wrote; None if there are none, or they are damaged or another model's."""
    content = read_if_exists(path)
    try:
        found = decode_checksummed(content, ModelScores) if content else None
    except (ValueError, msgspec.ValidationError):
        return None
    return found if found and (found.key, found.seed) == (data.key, seed) else None


def write_scores(path: Path, scores: ModelScores) -> None:
    """Write a model's scores atomically."""
    plain: dict[str, Any] = msgspec.to_builtins(scores)
    write_atomic(path, encode_checksummed(plain))
