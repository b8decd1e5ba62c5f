"""The compiled step: once for each batch shape, the same on every mesh, and saved while training continues."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import msgspec
import numpy as np
import pytest

from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.backend import Host
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import INIT, read_job
from jprep.train.worker.batches import Batches
from jprep_flax.options import Options
from jprep_flax.planning.layout import Layout, choose_layout
from jprep_flax.worker.data import BatchLoader
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.train_state import TrainState

HOST = Host("python", 2, 8 << 30)


class Trial:
    """A job of the backend suite on a mesh of this process's devices."""

    def __init__(self, run: Path, resume: Path | None = None, **options: Any) -> None:
        self.job: Job = read_job(run)
        chosen = Options(device="cpu", devices=jax.local_device_count(), **options)
        self.layout: Layout = choose_layout(self.job, chosen, HOST)
        self.context = DistributedContext(self.layout)
        self.state = TrainState(self.job, run / INIT, resume, self.context, self.layout, gradient_checkpointing=False)
        self.load, self.batches = BatchLoader(self.job, self.layout, self.context), Batches(run, self.job)

    def step(self, number: int) -> float:
        loaded = self.load(self.batches.train.batch(number - 1))
        return float(self.state.update(number, loaded.inputs, 0.01).loss)

    def steps(self, first: int, last: int) -> list[float]:
        return [self.step(number) for number in range(first, last + 1)]

    def operations(self) -> float:
        """Return the floating-point operations of a step on one device."""
        loaded = self.load(self.batches.train.batch(0))
        with jax.set_mesh(self.context.mesh):
            seed = np.zeros(2, np.uint32)
            lowered = self.state._update.lower(self.state.arrays, loaded.inputs, seed, np.float32(0.01))
        return float(lowered.compile().cost_analysis()["flops"])


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> SuiteRunner:
    return SuiteRunner(tmp_path_factory.mktemp("bench"), "flax", {"device": "cpu"})


def run_of(bench: SuiteRunner, case: str, **changes: Any) -> Path:
    return bench.prepare(case, **changes).run


def test_nothing_is_compiled_after_the_first_step(bench: SuiteRunner) -> None:
    trial = Trial(run_of(bench, "roberta-mlm"))
    trial.step(1)
    before = _compilations()
    trial.steps(2, 6)
    assert trial.state.compiled == 1 and _compilations() == before


def test_labelled_rows_are_compiled_once_for_each_bucket(bench: SuiteRunner) -> None:
    trial = Trial(run_of(bench, "roberta-regress", batch=4))
    trial.steps(1, 12)
    widths = {trial.batches.train.batch(number).input_ids.shape[1] for number in range(12)}
    assert trial.state.compiled == len(widths) > 1


def test_the_last_validation_batch_is_padded_to_the_usual_shape(bench: SuiteRunner) -> None:
    trial = Trial(run_of(bench, "roberta-mlm"))
    shapes = {trial.load(batch).inputs.ids.shape for batch in trial.batches.validating(0, 1)}
    assert shapes == {(1, 8, 32)}


@pytest.mark.parametrize(
    "before, after", [({}, {"fsdp": 4}), ({"tensor": 2}, {"micro_batch": 1}), ({"fsdp": 2}, {"tensor": 2})]
)
def test_a_run_resumes_on_another_mesh(
    before: dict[str, int], after: dict[str, int], bench: SuiteRunner, tmp_path: Path
) -> None:
    run = run_of(bench, "roberta-mlm")
    whole = Trial(run, **before)
    first = whole.steps(1, 3)
    whole.state.snapshot().write(tmp_path)
    expected = whole.steps(4, 8)
    again = Trial(run, tmp_path, **after).steps(4, 8)
    assert again == pytest.approx(expected, rel=1e-5)
    assert first[0] > expected[-1]


def test_dropout_does_not_depend_on_the_mesh(bench: SuiteRunner) -> None:
    run = run_of(bench, "gpt2-dropout")
    curves = [Trial(run, **options).steps(1, 4) for options in ({}, {"fsdp": 4}, {"tensor": 2})]
    for curve in curves[1:]:
        assert curve == pytest.approx(curves[0], rel=1e-5)
    still = Trial(run_of(bench, "gpt2-clm")).steps(1, 4)
    assert still != pytest.approx(curves[0], rel=1e-3)


def test_devices_share_the_work_for_every_sharding(bench: SuiteRunner) -> None:
    """Without constraints, XLA computes all rows on each device of `fsdp`, with its part of every weight."""
    run = run_of(bench, "gpt2-dropout")
    whole, *divided = (Trial(run, **options).operations() for options in ({}, {"fsdp": 4}, {"tensor": 2}))
    assert max(divided) < 1.05 * whole


def test_a_snapshot_does_not_change_while_training_continues(bench: SuiteRunner, tmp_path: Path) -> None:
    trial = Trial(run_of(bench, "gpt2-clm"))
    trial.steps(1, 2)
    snapshot = trial.state.snapshot()
    tensors = snapshot.weights | snapshot.averages
    kept = {name: tensor.copy() for name, tensor in tensors.items()}
    trial.steps(3, 6)
    for name, tensor in tensors.items():
        assert np.array_equal(tensor, kept[name]), name
    snapshot.write(tmp_path)
    saved = CheckpointReader(tmp_path)
    assert saved.progress.updates == 2
    assert all(np.array_equal(saved.weights[name], kept[name]) for name in saved.weights)


def test_frozen_weights_do_not_change(bench: SuiteRunner) -> None:
    trial = Trial(run_of(bench, "roberta-mlm"))
    name = "roberta.embeddings.token_type_embeddings.weight"
    before = trial.state.snapshot().weights
    trial.steps(1, 3)
    after = trial.state.snapshot()
    assert np.array_equal(before[name], after.weights[name])
    assert f"m.{name}" not in after.averages
    other = "roberta.embeddings.word_embeddings.weight"
    assert not np.array_equal(before[other], after.weights[other])


def test_padding_rows_of_an_embedding_have_no_effect_and_are_not_saved(bench: SuiteRunner, tmp_path: Path) -> None:
    run = run_of(bench, "gpt2-clm")
    plain, filled = Trial(run), Trial(run)
    layout = msgspec.structs.replace(filled.layout, vocabulary=384)
    filled.state = TrainState(
        filled.job, run / INIT, None, DistributedContext(layout), layout, gradient_checkpointing=False
    )
    assert filled.steps(1, 5) == pytest.approx(plain.steps(1, 5), rel=1e-5)
    snapshot = filled.state.snapshot()
    assert snapshot.weights["transformer.wte.weight"].shape == (filled.job.model["vocab_size"], 32)
    snapshot.write(tmp_path)
    assert Trial(run, tmp_path).steps(6, 8) == pytest.approx(plain.steps(6, 8), rel=1e-5)


def _compilations() -> int:
    """Return the number of programs that XLA has compiled in this process."""
    return _Compilations.count


class _Compilations:
    count = 0

    @classmethod
    def add(cls, event: str, *_: Any, **__: Any) -> None:
        cls.count += event.endswith("backend_compile_duration")


jax.monitoring.register_event_duration_secs_listener(_Compilations.add)
