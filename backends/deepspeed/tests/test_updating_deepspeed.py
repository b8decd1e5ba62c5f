"""One process, in this process: what DeepSpeed is made to do as docs/training.md says."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

from jprep.errors import ConfigError
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.job.config import Job
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import read_job
from jprep.train.worker.batches import Batches
from jprep_deepspeed.worker.train_state import TrainState
from jprep_torch.worker.data import count_labels, micro_batches
from jprep_torch.worker.distributed import DistributedContext, join_processes
from jprep_torch.worker.optimizer import INITIAL_LOSS_SCALE
from jprep_torch.worker.trainer import StepResult

STAGES = (0, 1, 2, 3)
RATE = 0.01


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    bench = SuiteRunner(tmp_path_factory.mktemp("runs"), "deepspeed", {"device": "cpu"})
    return bench.prepare("roberta-mlm").run


@pytest.fixture(scope="module")
def place() -> Iterator[DistributedContext]:
    """DeepSpeed keeps the first group of processes that it has seen."""
    os.environ["LOCAL_RANK"] = "0"
    with join_processes("cpu", deterministic=True, patience=timedelta(minutes=1), alone=True) as found:
        yield found


def settings(stage: int, **more: Any) -> dict[str, Any]:
    clip = {"gradient_clipping": 0.5} if stage else {}
    batch = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    return batch | clip | {"zero_optimization": {"stage": stage}, "zero_force_ds_cpu_optimizer": False} | more


def updater(
    run: Path, place: DistributedContext, given: dict[str, Any], resume: Path | None = None, **section: Any
) -> TrainState:
    job = read_job(run)
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, **section))
    return TrainState(job, run, resume, place, given, recompute=False)


def step(made: TrainState, job: Job, run: Path, number: int) -> StepResult:
    batch = Batches(run, job).train.batch(number)
    parts = list(micro_batches(batch, 8, 4, torch.device("cpu"), types=False))
    return made.update(parts, count_labels(batch), RATE, lambda norm: None)


def saved(made: TrainState, folder: Path) -> CheckpointReader:
    folder.mkdir()
    made.save(folder)
    return CheckpointReader(folder)


@pytest.mark.parametrize("stage", STAGES)
def test_the_gradient_is_clipped_by_its_norm_and_nothing_more(
    run: Path, place: DistributedContext, stage: int, tmp_path: Path
) -> None:
    """After the first step Adam's first average is (1 − β₁) · the clipped gradient, whose norm is the bound."""
    made, job = updater(run, place, settings(stage)), read_job(run)
    norm = step(made, job, run, 0).norm
    assert norm > 0.5
    averages = saved(made, tmp_path / "one").averages
    squares = sum(float((averages[name].astype("f8") ** 2).sum()) for name in averages if name.startswith("m."))
    found = squares**0.5 / (1 - job.train.optimizer.beta1)
    assert found == pytest.approx(0.5, rel=1.5e-7)


def test_fp16_starts_with_too_large_a_scale_and_halves_it(
    run: Path, place: DistributedContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(get_accelerator(), "is_fp16_supported", lambda: True)
    for stage in (1, 2, 3):
        half = {"fp16": {"enabled": True, "loss_scale": INITIAL_LOSS_SCALE}, "data_types": {"grad_accum_dtype": "fp32"}}
        made = updater(run, place, settings(stage, **half), precision="fp16")
        made._scale.factor = 2.0**24
        told = [step(made, read_job(run), run, number) for number in range(12)]
        scales = [one.scale for one in told]
        assert scales == sorted(scales, reverse=True) and 1 <= scales[-1] < 2.0**24
        assert told[-1].norm < 100 and told[-1].loss < told[0].loss
        progress = saved(made, tmp_path / str(stage)).progress
        assert 0 < progress.updates < len(told) and progress.scale == scales[-1]


def test_what_deepspeed_does_not_take_is_said(
    run: Path, place: DistributedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_accelerator(), "is_fp16_supported", lambda: False)
    with pytest.raises(ConfigError, match="no fp16 on this device but in stage 0"):
        updater(run, place, settings(2), precision="fp16")
    for stage in (2, 3):
        wrong = settings(stage) | {"zero_optimization": {"stage": stage, "reduce_bucket_size": -5}}
        with pytest.raises(ConfigError, match=r"(?s)reduce_bucket_size.*greater than 0"):
            updater(run, place, wrong)


def test_any_stage_goes_on_from_any_other_s_checkpoint(run: Path, place: DistributedContext, tmp_path: Path) -> None:
    job = read_job(run)
    first = updater(run, place, settings(2))
    for number in range(3):
        step(first, job, run, number)
    checkpoint = tmp_path / "three"
    before = saved(first, checkpoint)
    expected = step(first, job, run, 3)
    for stage in STAGES:
        made = updater(run, place, settings(stage), checkpoint)
        again = saved(made, tmp_path / f"again-{stage}")
        for kind in ("weights", "averages"):
            one, two = getattr(before, kind), getattr(again, kind)
            assert set(one) == set(two) and all((one[name] == two[name]).all() for name in one)
        assert again.progress == before.progress
        found = step(made, job, run, 3)
        assert float(found.loss) == pytest.approx(float(expected.loss), rel=1e-6)
        assert found.norm == pytest.approx(expected.norm, rel=1e-5)


def test_half_precision_keeps_its_weights_in_fp32_beside(run: Path, place: DistributedContext, tmp_path: Path) -> None:
    half = {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    for stage in (1, 2, 3):
        made = updater(run, place, settings(stage, **half), precision="bf16")
        first = saved(made, tmp_path / str(stage)).weights
        given = CheckpointReader(_as_checkpoint(run, tmp_path / f"given-{stage}")).weights
        assert all((first[name] == given[name]).all() for name in given), "rounded to bf16"
        assert {weight.dtype for weight in made.trainee.parameters()} == {torch.bfloat16}


def test_stage_3_divides_weights_as_they_are_read(
    run: Path, place: DistributedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    import jprep_deepspeed.worker.parallel as zero

    whole: list[int] = []
    read = zero.load

    def counted(model: Any, names: Any, weights: Any, put: Any, made: Any) -> None:
        read(model, names, weights, put, made)
        states = [weight.ds_status for weight in model.parameters()]
        whole.append(sum(state == ZeroParamStatus.AVAILABLE for state in states))

    monkeypatch.setattr(zero, "load", counted)
    updater(run, place, settings(3))
    assert whole == [0]


def _as_checkpoint(run: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((run / "init.safetensors").read_bytes())
    (folder / "state.json").write_text(json.dumps({"updates": 0}))
    return folder
