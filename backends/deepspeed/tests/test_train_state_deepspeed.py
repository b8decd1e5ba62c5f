"""DeepSpeed in this process against the mathematics of docs/training.md."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch
from deepspeed.accelerator import get_accelerator
from deepspeed.runtime.swap_tensor import optimizer_utils
from deepspeed.runtime.zero.partition_parameters import ZeroParamStatus

from jprep.errors import ConfigError
from jprep.testing.backend_suite.curves import gradient_norm
from jprep.testing.backend_suite.runner import SuiteRunner
from jprep.train.job.config import Job
from jprep.train.optimization.loss_scale import INITIAL_LOSS_SCALE
from jprep.train.run.checkpoint_files import CheckpointReader
from jprep.train.run.directory import INIT, read_job
from jprep.train.worker.batches import Batches
from jprep_deepspeed.planning.generated_config import generate_config
from jprep_deepspeed.planning.layout_types import Layout
from jprep_deepspeed.worker.train_state import TrainState, keeps_on_device
from jprep_torch.worker.data import count_labels, micro_batches
from jprep_torch.worker.distributed.context import DistributedContext, join_processes
from jprep_torch.worker.trainer import StepResult
from tests.fakes.device_reads import DeviceReads

STAGES = (0, 1, 2, 3)
RATE = 0.01


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    bench = SuiteRunner(tmp_path_factory.mktemp("runs"), "deepspeed", {"device": "cpu"})
    return bench.prepare("roberta-mlm").run


@pytest.fixture(scope="module")
def context() -> Iterator[DistributedContext]:
    """Join a process group once: DeepSpeed keeps the first one."""
    os.environ["LOCAL_RANK"] = "0"
    with join_processes("cpu", deterministic=True, timeout=timedelta(minutes=1), alone=True) as found:
        yield found


def make_config(stage: int, **more: Any) -> dict[str, Any]:
    clip = {"gradient_clipping": 0.5 if stage else 0.0}
    batch = {"train_batch_size": 8, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 2}
    return batch | clip | {"zero_optimization": {"stage": stage}, "zero_force_ds_cpu_optimizer": False} | more


def with_clip(job: Job, clip: float) -> Job:
    optimizer = msgspec.structs.replace(job.train.optimizer, clip=clip)
    return msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, optimizer=optimizer))


def make_state(
    run: Path, context: DistributedContext, config: dict[str, Any], resume: Path | None = None, **section: Any
) -> TrainState:
    job = read_job(run)
    job = msgspec.structs.replace(job, train=msgspec.structs.replace(job.train, **section))
    return TrainState(job, run / INIT, resume, context, config, gradient_checkpointing=False)


def step(state: TrainState, job: Job, run: Path, number: int) -> StepResult:
    batch = Batches(run, job).train.batch(number)
    parts = list(micro_batches(batch, 8, 4, torch.device("cpu"), types=False))
    return state.update(parts, count_labels(batch), RATE, lambda norm: None)


def saved(state: TrainState, folder: Path) -> CheckpointReader:
    folder.mkdir()
    state.save(folder)
    return CheckpointReader(folder)


@pytest.mark.parametrize("clip", [0.5, 2.0, 0.0])
@pytest.mark.parametrize("stage", STAGES)
def test_gradients_are_clipped_to_the_exact_norm(
    run: Path, context: DistributedContext, stage: int, clip: float, tmp_path: Path
) -> None:
    """After the first step Adam's first average is (1 − β₁) · the clipped gradient, whose norm is the bound."""
    job = with_clip(read_job(run), clip)
    config = generate_config(job, Layout("cpu", 1, 4, 2, stage))
    state = make_state(run, context, config, optimizer=job.train.optimizer)
    norm = float(step(state, job, run, 0).norm)
    assert norm > 2.5
    assert gradient_norm(saved(state, tmp_path / "one"), job) == pytest.approx(clip or norm, rel=1.5e-7)


@pytest.mark.parametrize("stage", STAGES)
def test_a_copy_writes_the_same_files(
    run: Path, context: DistributedContext, stage: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = make_state(run, context, make_config(stage))
    step(state, read_job(run), run, 0)
    saved(state, tmp_path / "saved")
    assert state.checkpoint_writer() is None  # on a CPU
    monkeypatch.setattr(state, "_copies", True)  # as on a GPU
    write = state.checkpoint_writer()
    assert write
    (tmp_path / "copied").mkdir()
    write(tmp_path / "copied")
    files = [{path.name: path.read_bytes() for path in (tmp_path / name).iterdir()} for name in ("saved", "copied")]
    assert files[0] == files[1] and len(files[0]) == 3


@pytest.mark.parametrize(
    ("zero", "copies"),
    [
        ({}, True),
        ({"offload_optimizer": {"device": "none"}}, True),
        ({"offload_optimizer": {"device": "cpu"}}, False),
        ({"offload_param": {"device": "cpu"}}, False),
    ],
)
def test_only_what_is_on_a_gpu_is_take_snapshot(zero: dict[str, Any], copies: bool) -> None:
    assert keeps_on_device({"zero_optimization": zero}) == copies


@pytest.mark.parametrize("stage", STAGES)
def test_steps_read_from_the_device_only_what_deepspeed_reads(
    run: Path, context: DistributedContext, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSpeed's stages 1 to 3 read whether the norm is finite."""
    job = read_job(run)
    timers = generate_config(job, Layout("cpu", 1, 4, 2, stage))["timers"]
    state, waited = make_state(run, context, make_config(stage, timers=timers)), list[int]()
    step(state, job, run, 0)  # creates the optimizer's averages
    monkeypatch.setattr(get_accelerator(), "synchronize", lambda *_: waited.append(1))
    with DeviceReads() as reads:
        results = [step(state, job, run, number) for number in range(1, 4)]
    assert all(isinstance(one.norm, torch.Tensor) for one in results)
    assert {name.split(".")[0] for name in reads.callers} == ({"deepspeed"} if stage else set())
    assert not waited


@pytest.mark.parametrize("stage", STAGES)
def test_a_gradient_that_is_not_finite_has_no_finite_norm(
    run: Path, context: DistributedContext, stage: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """DeepSpeed gives it the norm -1 where it does not look for overflows."""
    half = {"bf16": {"enabled": True, "check_grad_overflow": False}, "data_types": {"grad_accum_dtype": "fp32"}}
    job, config = read_job(run), make_config(stage, **(half if stage else {}))
    state = make_state(run, context, config, precision="bf16")
    weight = next(iter(state._parallel.trained.values()))
    weight.register_hook(lambda gradient: gradient * float("inf"))
    assert not math.isfinite(float(step(state, job, run, 0).norm))


def test_the_loss_scale_of_fp16_is_halved_on_overflow(
    run: Path, context: DistributedContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(get_accelerator(), "is_fp16_supported", lambda: True)
    for stage in (1, 2, 3):
        half = {"fp16": {"enabled": True, "loss_scale": INITIAL_LOSS_SCALE}, "data_types": {"grad_accum_dtype": "fp32"}}
        state = make_state(run, context, make_config(stage, **half), precision="fp16")
        state._scale.factor = 2.0**24
        results = [step(state, read_job(run), run, number) for number in range(12)]
        scales = [one.scale for one in results]
        assert scales == sorted(scales, reverse=True) and 1 <= scales[-1] < 2.0**24
        assert results[-1].norm < 100 and results[-1].loss < results[0].loss
        progress = saved(state, tmp_path / str(stage)).progress
        assert 0 < progress.updates < len(results) and progress.scale == scales[-1]


def test_unsupported_values_are_refused(
    run: Path, context: DistributedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(get_accelerator(), "is_fp16_supported", lambda: False)
    with pytest.raises(ConfigError, match="supports fp16 on this device in stage 0 only"):
        make_state(run, context, make_config(2), precision="fp16")
    for stage in (2, 3):
        wrong = make_config(stage) | {"zero_optimization": {"stage": stage, "reduce_bucket_size": -5}}
        with pytest.raises(ConfigError, match=r"(?s)reduce_bucket_size.*greater than 0"):
            make_state(run, context, wrong)


def test_every_stage_resumes_from_a_checkpoint_of_another(
    run: Path, context: DistributedContext, tmp_path: Path
) -> None:
    job = read_job(run)
    first = make_state(run, context, make_config(2))
    for number in range(3):
        step(first, job, run, number)
    checkpoint = tmp_path / "three"
    before = saved(first, checkpoint)
    expected = step(first, job, run, 3)
    for stage in STAGES:
        state = make_state(run, context, make_config(stage), checkpoint)
        again = saved(state, tmp_path / f"again-{stage}")
        for kind in ("weights", "averages"):
            one, two = getattr(before, kind), getattr(again, kind)
            assert set(one) == set(two) and all((one[name] == two[name]).all() for name in one)
        assert again.progress == before.progress
        found = step(state, job, run, 3)
        assert float(found.loss) == pytest.approx(float(expected.loss), rel=1e-6)
        assert found.norm == pytest.approx(expected.norm, rel=1e-5)


@pytest.fixture
def tiny_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let DeepSpeed keep tiny tensors in files; by default they have at least a megabyte."""
    if not get_accelerator().create_op_builder("AsyncIOBuilder").is_compatible():
        pytest.skip("DeepSpeed cannot use asynchronous files here: libaio's headers or a C++ compiler are missing")
    monkeypatch.setattr(optimizer_utils, "MIN_AIO_BYTES", 1024)


@pytest.mark.usefixtures("tiny_files")
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("param", ["none", "cpu"])
def test_state_in_files_has_the_same_numbers(
    run: Path, context: DistributedContext, tmp_path: Path, param: str, precision: str
) -> None:
    half = {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}} if precision == "bf16" else {}
    memory, files = {"device": "cpu"}, {"device": "nvme", "nvme_path": str(tmp_path / "disk")}
    groups = {"stage": 3, "sub_group_size": 5_000, "offload_param": {"device": param}}
    in_memory = half | {"zero_optimization": groups | {"offload_optimizer": memory}}
    swapped = half | {"aio": {"block_size": 1024}, "zero_optimization": groups | {"offload_optimizer": files}}
    job, states = read_job(run), list[TrainState]()
    for config in (in_memory, swapped):
        state = make_state(run, context, make_config(3) | config, precision=precision)
        states.append(state)
        for number in range(3):
            step(state, job, run, number)
        saved(state, tmp_path / str(len(states)))
    assert same_numbers(tmp_path / "1", tmp_path / "2")
    assert any((tmp_path / "disk").rglob("*.swp"))
    states.append(make_state(run, context, make_config(3) | swapped, tmp_path / "2", precision=precision))
    assert len({(float(found.loss), found.norm) for found in (step(state, job, run, 3) for state in states)}) == 1
    for number, state in enumerate(states):
        saved(state, tmp_path / f"after-{number}")
    assert all(same_numbers(tmp_path / "after-0", tmp_path / f"after-{number}") for number in (1, 2))


def same_numbers(one: Path, other: Path) -> bool:
    """Return whether two checkpoints have the same weights and averages."""
    names = sorted(path.name for path in one.glob("*.safetensors"))
    return bool(names) and all((one / name).read_bytes() == (other / name).read_bytes() for name in names)


def test_half_precision_keeps_fp32_weights(run: Path, context: DistributedContext, tmp_path: Path) -> None:
    half = {"bf16": {"enabled": True}, "data_types": {"grad_accum_dtype": "fp32"}}
    for stage in (1, 2, 3):
        state = make_state(run, context, make_config(stage, **half), precision="bf16")
        first = saved(state, tmp_path / str(stage)).weights
        given = CheckpointReader(_as_checkpoint(run, tmp_path / f"given-{stage}")).weights
        assert all((first[name] == given[name]).all() for name in given), "rounded to bf16"
        assert {weight.dtype for weight in state.model.parameters()} == {torch.bfloat16}


def test_stage_3_shards_each_weight_after_reading_it(
    run: Path, context: DistributedContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jprep_deepspeed.worker import parallel

    whole: list[int] = []
    read = parallel.load_weights

    def counted(model: Any, names: Any, weights: Any, put: Any, loaded: Any) -> None:
        read(model, names, weights, put, loaded)
        states = [weight.ds_status for weight in model.parameters()]
        whole.append(sum(state == ZeroParamStatus.AVAILABLE for state in states))

    monkeypatch.setattr(parallel, "load_weights", counted)
    make_state(run, context, make_config(3))
    assert whole == [0]


def _as_checkpoint(run: Path, folder: Path) -> Path:
    folder.mkdir()
    (folder / "model.safetensors").write_bytes((run / "init.safetensors").read_bytes())
    (folder / "state.json").write_text(json.dumps({"updates": 0}))
    return folder
