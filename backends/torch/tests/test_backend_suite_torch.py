"""jprep-torch keeps what every backend owes, and transformers loads what it exports."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
import torch
from reference import CASES, Batches, model_of, read_job, train, validation_loss

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import STEPS, GoldenCurve, golden_curve
from jprep.testing.backend_suite.runner import SuiteRunner


class TestTorch(BackendSuite):
    backend = "torch"
    options = {"device": "cpu", "threads": 1}
    few_rows = {"rows": 2}
    two_processes = {"processes": 2}
    ways = {"sharded": {"processes": 2, "shard": "yes", "rows": 2}, "recomputed": {"recompute": True}}
    half = ("bf16", "fp16")

    def test_transformers_has_the_same_loss(self, bench: SuiteRunner, case: str):
        trained = bench.trained(case)
        job, weights = read_job(trained.run), bench.exported(trained)
        loss = validation_loss(model_of(job, weights, torch.float32), job.train.task, Batches(trained.run, job))
        assert loss == pytest.approx(trained.losses("validation")[STEPS], rel=1e-6)


Computed = Callable[[str], tuple[Path, GoldenCurve, list[float]]]


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """What the reference computes of a case: the run, its curve, the norms of its gradients."""
    bench = SuiteRunner(tmp_path_factory.mktemp("golden"), "torch", {})

    @cache
    def compute(case: str) -> tuple[Path, GoldenCurve, list[float]]:
        run = bench.prepare(case).run
        return run, *train(run)

    return compute


@pytest.mark.parametrize("case", CASES)
def test_the_golden_curve_is_what_the_reference_computes(computed: Computed, case: str):
    _, curve, _ = computed(case)
    assert curve.train == pytest.approx(golden_curve(case).train, rel=1e-9)
    assert curve.validation == pytest.approx(golden_curve(case).validation, rel=1e-9)


def test_gradients_are_clipped_in_some_steps_and_not_in_others(computed: Computed):
    run, _, norms = computed("gpt2-clm")
    assert min(norms) < read_job(run).train.optimizer.clip < max(norms)
