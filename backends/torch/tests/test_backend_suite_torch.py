"""The conformance suite, and losses of exported models computed by transformers."""

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
    hooks = Path(__file__).parent / "hooks" / "suite_hooks.py"
    options = {"device": "cpu", "threads": 1}
    micro_batch_of_two = {"micro_batch": 2}
    two_processes = {"processes": 2}
    equivalent_options = {
        "sharded": {"processes": 2, "shard": "yes", "micro_batch": 2},
        "gradient checkpointing": {"gradient_checkpointing": True},
    }
    precisions = ("bf16", "fp16")

    def test_transformers_computes_the_same_loss(self, bench: SuiteRunner, case: str):
        trained = bench.trained(case)
        job, weights = read_job(trained.run), bench.exported(trained)
        loss = validation_loss(model_of(job, weights, torch.float32), job.train.task, Batches(trained.run, job))
        assert loss == pytest.approx(trained.losses("validation")[STEPS], rel=1e-6)


Computed = Callable[[str], tuple[Path, GoldenCurve, list[float]]]


@pytest.fixture(scope="module")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Computed:
    """Return the reference's run, loss curve and gradient norms of a case."""
    bench = SuiteRunner(tmp_path_factory.mktemp("golden"), "torch", {})

    @cache
    def compute(case: str) -> tuple[Path, GoldenCurve, list[float]]:
        run = bench.prepare(case).run
        return run, *train(run)

    return compute


@pytest.mark.parametrize("case", CASES)
def test_the_reference_computes_the_golden_curve(computed: Computed, case: str):
    _, curve, _ = computed(case)
    assert curve.train == pytest.approx(golden_curve(case).train, rel=1e-9)
    assert curve.validation == pytest.approx(golden_curve(case).validation, rel=1e-9)


def test_some_gradients_are_clipped_and_others_are_not(computed: Computed):
    run, _, norms = computed("gpt2-clm")
    assert min(norms) < read_job(run).train.optimizer.clip < max(norms)
