"""The conformance suite, and losses of exported models computed by transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import reference
import torch
from reference import CASES, Batches, Losses, model_of, read_job, summed_loss, train, validation_loss

from jprep.testing.backend_suite import BackendSuite
from jprep.testing.backend_suite.cases import STEPS, GoldenCurve, golden_curve, model_type_of
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.testing.backend_suite.suite import PARITY
from jprep.train.models import FAMILIES


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

    @pytest.mark.backends
    def test_replaced_tokens_do_not_depend_on_the_division(self, bench: SuiteRunner) -> None:
        super().test_replaced_tokens_do_not_depend_on_the_division(bench)

    @pytest.mark.backends
    def test_sentence_pairs_do_not_depend_on_the_division(self, bench: SuiteRunner) -> None:
        super().test_sentence_pairs_do_not_depend_on_the_division(bench)

    @pytest.mark.backends
    def test_hooks_do_not_depend_on_processes_and_interruptions(self, bench: SuiteRunner) -> None:
        super().test_hooks_do_not_depend_on_processes_and_interruptions(bench)

    def test_transformers_computes_the_same_loss(self, bench: SuiteRunner, case: str):
        trained = bench.trained(case)
        job, weights = read_job(trained.run), bench.exported(trained)
        loss = validation_loss(model_of(job, weights, torch.float32), job.train.objective, Batches(trained.run, job))
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
    # transformers computes the angles of RoPE in float32, whose last bits depend on the CPU.
    rel = 2e-6 if FAMILIES[model_type_of(CASES[case])].rotary else 1e-9
    assert curve.train == pytest.approx(golden_curve(case).train, rel=rel)
    assert curve.validation == pytest.approx(golden_curve(case).validation, rel=rel)


def _without_pair_loss(losses: Losses, batch: Any) -> Losses:
    return losses._replace(pairs=0.0)


def _summed_pair_loss(losses: Losses, batch: Any) -> Losses:
    return losses._replace(rows=1)


@pytest.mark.parametrize("change", [_without_pair_loss, _summed_pair_loss])
def test_a_wrong_next_sentence_loss_is_seen(
    change: Callable[[Losses, Any], Losses], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reference, "summed_loss", lambda *given: change(summed_loss(*given), given[2]))
    assert not _agrees_with_golden_curve(tmp_path)


@pytest.mark.parametrize(
    ("change", "agrees"),
    [
        (lambda batch: batch, True),
        (lambda batch: batch._replace(segments=0 * batch.segments), False),
        (lambda batch: batch._replace(next_sentence=1 - batch.next_sentence), False),
    ],
    ids=["none", "segments", "labels"],
)
def test_wrong_segments_and_labels_are_seen(
    change: Callable[[Any], Any], agrees: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(reference, "summed_loss", lambda *given: summed_loss(*given[:2], change(given[2])))
    assert _agrees_with_golden_curve(tmp_path) == agrees


def _agrees_with_golden_curve(folder: Path) -> bool:
    """Return whether the first five steps of the case `bert-nsp` have the golden losses."""
    run = SuiteRunner(folder, "torch", {}).prepare("bert-nsp", steps=6, validation={"every_steps": 7}).run
    found, golden = train(run)[0].train[:5], golden_curve("bert-nsp").train[:5]
    return all(abs(one / other - 1) <= PARITY for one, other in zip(found, golden, strict=True))


def test_some_gradients_are_clipped_and_others_are_not(computed: Computed):
    run, _, norms = computed("gpt2-clm")
    assert min(norms) < read_job(run).train.optimizer.clip < max(norms)
