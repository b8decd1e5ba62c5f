"""What the tests of the suite read and assert of runs: loss curves, and the gradient of a first step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jprep.testing.backend_suite.cases import golden_curve
from jprep.testing.backend_suite.runner import FinishedRun
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job


def golden_losses(case: str) -> dict[int, float]:
    """Return the golden training losses of a case by step."""
    return dict(enumerate(golden_curve(case).train, 1))


def assert_ended_well(trained: FinishedRun) -> None:
    """Assert that a run ended without an error."""
    assert trained.code == 0, f"the run ended with {trained.code}: {trained.messages}"


def mean_of_five(losses: Mapping[int, float], *, last: bool) -> float:
    """Return the mean of the first or last five losses."""
    values = list(losses.values())
    return float(np.mean(values[-5:] if last else values[:5]))


def assert_falls(losses: Mapping[int, float], share: float) -> None:
    """Assert that the last five losses are below a share of the first five."""
    first, last = mean_of_five(losses, last=False), mean_of_five(losses, last=True)
    assert last < share * first, f"the loss was {first:.4f} at the start, and is {last:.4f} at the end"


def assert_agrees(found: Mapping[int, float], wanted: Mapping[int, float], relative: float) -> None:
    """Assert that steps and losses agree; the message names the first difference."""
    assert list(found) == list(wanted), "the steps differ"
    for step, loss in found.items():
        off = abs(loss / wanted[step] - 1)
        assert off <= relative, f"step {step}: {loss!r} instead of {wanted[step]!r}, off by {off:.2g} of it"


def norm_of_first_gradient(trained: FinishedRun) -> float:
    """Return the norm of the gradient that AdamW took in a run of one step, from its first average."""
    return gradient_norm(CheckpointReader(trained.checkpoint()), read_job(trained.run))


def gradient_norm(saved: CheckpointReader, job: Job) -> float:
    """Return the norm of the gradient that AdamW took in the first step, from the checkpoint after it."""
    firsts = (saved.averages[name].astype("f8") for name in saved.averages if name.startswith("m."))
    return float(sum(float((each**2).sum()) for each in firsts) ** 0.5 / (1 - job.train.optimizer.beta1))
