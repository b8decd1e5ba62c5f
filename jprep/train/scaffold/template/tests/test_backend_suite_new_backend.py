"""The suite that every backend of jprep passes."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.runner import SuiteRunner

OPTIONS = {"threads": 1}

needs_model = pytest.mark.xfail(strict=True, reason="this needs the job's model; remove this mark once it is there")


class TestNewBackend(BackendSuite):
    """Every test of the suite that applies; those marked are expected to fail until the model is the job's."""

    backend = "new-backend"
    options = OPTIONS
    cases = ("gpt2-clm",)

    @needs_model
    def test_the_curve_is_the_golden_one(self, bench: SuiteRunner, case: str) -> None:
        """The losses are those of the reference."""
        super().test_the_curve_is_the_golden_one(bench, case)

    @needs_model
    def test_the_validation_loss_is_the_golden_one(self, bench: SuiteRunner, case: str) -> None:
        """The validation losses are those of the reference."""
        super().test_the_validation_loss_is_the_golden_one(bench, case)

    @needs_model
    def test_weight_decay_of_all_tensors_includes_norms(self, bench: SuiteRunner) -> None:
        """The weights of norms decay."""
        super().test_weight_decay_of_all_tensors_includes_norms(bench)


def test_gradient_accumulation_takes_the_same_steps(tmp_path: Path) -> None:
    """With two rows at a time the losses differ by rounding only."""
    runner = SuiteRunner(tmp_path, "new-backend", OPTIONS)
    whole = runner.trained("gpt2-clm").losses()
    prepared = runner.prepare("gpt2-clm", {"micro_batch": 2})
    assert (prepared.plan.micro_batch, prepared.plan.accumulate) == (2, 4)
    parts = runner.train(prepared).losses()
    assert list(parts.values()) == pytest.approx(list(whole.values()), rel=1e-4)
