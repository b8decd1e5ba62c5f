"""jprep-keras passes the backend suite: on TensorFlow, on two replicas, and on JAX."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import CASES, SAVED, model_type_of
from jprep.testing.backend_suite.curves import assert_agrees, assert_ended_well, golden_losses
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import LABELLED, PARITY
from jprep_keras.planning.checks import MODEL_TYPES

JAX = {"engine": "jax", "devices": 2, "micro_batch": 2}


class TestKeras(BackendSuite):
    backend = "keras"
    hooks = Path(__file__).parent / "hooks" / "suite_hooks.py"
    options = {"device": "cpu"}
    cases = tuple(
        name
        for name, case in CASES.items()
        if model_type_of(case) in MODEL_TYPES and not name.endswith(("-rtd", "-stages", "-muon", "-weighted"))
    )
    micro_batch_of_two = {"micro_batch": 2}
    two_devices = {"devices": 2, "micro_batch": 2}
    equivalent_options = {
        "two replicas": two_devices,
        "compiled by XLA": {"jit_compile": True},
        "on JAX with two devices": JAX,
    }
    precisions = ("bf16", "fp16")
    resumes_from = ("torch",)

    def test_hooks_do_not_depend_on_the_engine(self, bench: SuiteRunner) -> None:
        hooks = self._hooks(loss="weighted_loss", head="MeanPoolingHead", metrics=["margin"])
        whole, divided = bench.trained(LABELLED, hooks=hooks), bench.train(bench.prepare(LABELLED, JAX, hooks=hooks))
        assert_ended_well(divided)
        assert_agrees(divided.losses(), whole.losses(), PARITY)
        for figure in ("loss", "metrics/margin"):
            assert_agrees(divided.figures(figure), whole.figures(figure), PARITY)

    @pytest.mark.parametrize("engine", ["tensorflow", "jax"])
    @pytest.mark.parametrize("name", ["llama-documents", "roberta-documents"])
    def test_documents_do_not_depend_on_the_division(self, bench: SuiteRunner, name: str, engine: str) -> None:
        """Two devices with micro-batches of two rows each, killed once, give the golden curve."""
        trained = bench.train(bench.prepare(name, JAX | {"engine": engine}), JPREP_FAILPOINT="run.committed@2")
        assert_ended_well(trained)
        assert [event.step for event in trained.events() if event.kind == "start"] == [0, SAVED]
        assert_agrees(trained.losses(), golden_losses(name), PARITY)
