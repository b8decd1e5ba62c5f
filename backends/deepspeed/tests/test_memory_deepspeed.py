"""Memory estimates of ZeRO stages: the published case, and a measurement with two processes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from jprep.train.backend import Host, Plan
from jprep.train.job.config import Job, ModelConfig
from jprep.train.models import TokenizerInfo, model_config, parameter_count
from jprep.train.models.initial_weights import write_initial_weights
from jprep.train.run.directory import INIT, read_job
from jprep_deepspeed.backend import DeepSpeed
from jprep_deepspeed.options import Options
from tests.fakes.trained_run import trained_run

EIGHT = Host("/environment/bin/python", 96, 1 << 40, ("NVIDIA A100-SXM4-40GB",) * 8, 40536 << 20)


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Return a job with 1.5 B weights, 1,024 tokens, and 8 processes with 22 micro-batches of 3 rows."""
    job = read_job(trained_run(tmp_path_factory.mktemp("run"), "clm", "gpt2", batch=528, length=32))
    model = model_config(ModelConfig(preset="gpt2-xl"), "clm", TokenizerInfo(50_000, 1024))
    train = msgspec.structs.replace(job.train, length=1024, precision="bf16")
    return msgspec.structs.replace(job, model=model, parameters=parameter_count(model, "clm"), train=train)


def plan(job: Job, host: Host = EIGHT, **options: Any) -> Plan:
    chosen = msgspec.to_builtins(Options(**options))
    return DeepSpeed().plan(msgspec.structs.replace(job, options=chosen), Path("run"), host)


def fits(found: Plan) -> list[bool]:
    """Return for each stage's line whether it fits."""
    return ["does not fit" not in line for line in found.notes if line.startswith("ZeRO")]


def test_the_published_model_fits_in_stage_2_and_not_in_stage_0(published: Job) -> None:
    assert published.parameters == pytest.approx(1.56e9, rel=0.01)
    whole, divided = plan(published, micro_batch=3, stage=0), plan(published, micro_batch=3, stage=2)
    assert (whole.processes, whole.micro_batch, whole.accumulate) == (8, 3, 22)
    assert fits(whole) == [False, True, True, True] == fits(divided)
    assert whole.memory > 0.85 * EIGHT.device_memory > 2 * divided.memory - EIGHT.device_memory
    assert (
        "stage = 1" in whole.notes[4]
        and "gradient_checkpointing = true" in whole.notes[4]
        and "micro_batch = 2" in whole.notes[4]
    )


def test_muon_keeps_one_average_of_each_matrix(published: Job) -> None:
    optimizer = msgspec.structs.replace(published.train.optimizer, kind="muon")
    muon = msgspec.structs.replace(published, train=msgspec.structs.replace(published.train, optimizer=optimizer))
    for stage, parts in ((0, 1), (2, 8)):
        saved = plan(published, micro_batch=3, stage=stage).memory - plan(muon, micro_batch=3, stage=stage).memory
        assert saved == pytest.approx(4 * 1.47e9 / parts, rel=0.02), "all weights but embeddings and vectors"


def test_the_smallest_stage_that_fits_is_chosen(published: Job) -> None:
    assert plan(published, micro_batch=3).settings["zero_optimization"]["stage"] == 1
    assert plan(published, micro_batch=3, gpu="80").settings["zero_optimization"]["stage"] == 0
    for processes, gpu in ((8, "A100-40GB"), (8, "24"), (8, "16"), (2, "40")):
        found = plan(published, processes=processes, gpu=gpu)
        stage = found.settings["zero_optimization"]["stage"]
        assert fits(found)[stage] and not any(fits(found)[:stage])


def test_a_named_gpu_needs_no_gpu_on_this_machine(published: Job) -> None:
    bare = Host("python", 8, 1 << 40)
    named, there = plan(published, bare, micro_batch=3, processes=8, gpu="40"), plan(published, micro_batch=3)
    assert named.memory == there.memory and "cuda" in named.argv


def test_a_plan_that_does_not_fit_suggests_what_would(published: Job) -> None:
    found = plan(published, micro_batch=3, processes=8, gpu="8")
    assert not any(fits(found)) and found.notes[-1].startswith("what would fit: ")
    assert (
        'offload_optimizer = "cpu" (with ' in found.notes[4]
        and "GB of its host's memory for each process)" in found.notes[4]
    )
    known = plan(published, micro_batch=3, processes=8, gpu="8", host_memory=512.0)
    assert "GB of its host's memory for each process" not in known.notes[4]
    nothing = plan(published, Host("python", 8, 1 << 40), processes=8, gpu="1", host_memory=1.0)
    assert nothing.notes[4] == "what would fit: nothing known"


def test_offloaded_state_counts_as_main_memory(published: Job) -> None:
    here, away = (plan(published, micro_batch=3, stage=2, offload_optimizer=where) for where in ("none", "cpu"))
    assert here.memory - away.memory >= 12 * published.parameters // 8
    assert "of its host's" in away.notes[2] and "of its host's" not in here.notes[2]


@pytest.mark.soak
def test_the_estimate_is_within_15_percent_of_two_processes(tmp_path: Path) -> None:
    """Compare the peak of all tensors in a step with 3 million weights, in each stage."""
    config = {"model_type": "gpt2", "n_embd": 256, "n_layer": 4, "n_head": 2, "n_positions": 128}
    still = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    run = trained_run(tmp_path, "clm", "gpt2", model={"config": config | still}, length=64, batch=4)
    job, host = read_job(run), Host("python", 2, 8 << 30)
    write_initial_weights(job.model, "clm", 1, run / INIT)
    cases, estimates = [], []
    for precision, stage in ((p, s) for p in ("fp32", "bf16") for s in range(4)):
        train = msgspec.structs.replace(job.train, precision=precision)
        found = plan(msgspec.structs.replace(job, train=train), host, processes=2, stage=stage, micro_batch=2)
        cases.append({"precision": precision, "settings": found.settings})
        estimates.append(found.memory)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    program = str(Path(__file__).with_name("memory_measurement.py"))
    done = subprocess.run([*launch, program, str(run), json.dumps(cases)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    took = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("took ")]
    assert [e / t for e, t in zip(estimates, took, strict=True)] == pytest.approx([1.0] * 8, abs=0.15), (
        estimates,
        took,
    )
