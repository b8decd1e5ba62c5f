"""A run can be extended if the schedule gives the steps already done the same learning rates."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from jprep.errors import MismatchError
from jprep.train.exporting.checkpoint_selection import select_checkpoint
from jprep.train.job.build import build_job
from jprep.train.job.config import Job, parse_train_config
from jprep.train.launcher.supervisor import supervise
from jprep.train.optimization.schedule import learning_rate
from jprep.train.run.directory import checkpoints_of, open_run, read_job
from tests.fakes.small_run import plan_of, weights
from tests.fakes.trained_run import trained_run

CONSTANT = {"kind": "constant", "warmup": 3}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    trained_run(tmp_path)  # for its tokenizer and its dataset
    return tmp_path


def job(folder: Path, run: Path, steps: int, schedule: dict[str, Any], **more: Any) -> Job:
    section = {
        "task": "mlm", "batch": 8, "length": 16, "steps": steps, "schedule": schedule, "log_every": 5,
        "model": {"config": {"model_type": "roberta", "hidden_size": 16, "num_hidden_layers": 1,
                             "num_attention_heads": 2, "intermediate_size": 24}},
        "checkpoint": {"every_steps": 10}, **more,
    }  # fmt: skip
    config = parse_train_config(section, "here")
    return build_job(config, "small", "numpy", {}, folder / "tokenizer", folder / "dataset", run=run)


def train(folder: Path, name: str, steps: int, schedule: dict[str, Any], **more: Any) -> tuple[Path, list[str]]:
    run, said = folder / name, list[str]()
    open_run(run, job(folder, run, steps, schedule, **more), said.append)
    assert supervise(run, plan_of(run), say=said.append) == 0
    return run, said


def rates(run: Path) -> list[float]:
    found = read_job(run)
    return [learning_rate(step, found.steps, 1.0, found.train.schedule) for step in range(found.steps)]


@pytest.mark.parametrize(
    ("first", "then"),
    [
        (CONSTANT, CONSTANT),
        (CONSTANT, CONSTANT | {"total": 50}),
        ({"steps": 80, "floor": 0.1}, {"total": 80, "floor": 0.1}),
        ({"kind": "cosine", "floor": 0.1}, {"kind": "cosine", "floor": 0.1, "total": 60}),
    ],
)
def test_an_extended_run_ends_as_one_with_all_steps_from_the_start(
    first: dict[str, Any], then: dict[str, Any], folder: Path
) -> None:
    straight, _ = train(folder, "straight", 80, then)
    short, _ = train(folder, "longer", 60, first)
    before = rates(short)
    run, said = train(folder, "longer", 80, then)
    assert "this run had 60 steps and is extended to 80" in said
    assert weights(run, 80) == weights(straight, 80)
    assert before == rates(run)[:60] and rates(run) == rates(straight)
    ends = [path / "checkpoints" / "step-00000080" / "COMMIT.json" for path in (run, straight)]
    assert ends[0].read_bytes() == ends[1].read_bytes()
    assert select_checkpoint(run, read_job(run), "70").step == 70


def test_a_run_can_be_extended_twice(folder: Path) -> None:
    train(folder, "own", 20, CONSTANT)
    for steps in (21, 22):
        run, _ = train(folder, "own", steps, CONSTANT, checkpoint={"every_steps": 10, "keep_last": 9})
    found = checkpoints_of(run, read_job(run)).committed()
    assert [one.step for one in found] == [10, 20, 21, 22] and len({one.commit.job for one in found}) == 3
    run, _ = train(folder, "own", 22, CONSTANT)  # the same command again
    assert select_checkpoint(run, read_job(run), "10").step == 10


def test_a_decay_that_ended_with_the_run_cannot_be_extended(folder: Path) -> None:
    run, _ = train(folder, "own", 60, {"floor": 0.1})
    before = (run / "job.json").read_bytes()
    with pytest.raises(MismatchError, match=r"decays \(linear\) until step 60, and .* until step 80") as caught:
        open_run(run, job(folder, run, 80, {"floor": 0.1}))
    assert "--set train.schedule.total=60" in caught.value.fix
    assert (run / "job.json").read_bytes() == before


def test_a_decay_to_0_names_another_way(folder: Path) -> None:
    run, _ = train(folder, "own", 60, {})
    with pytest.raises(MismatchError) as caught:
        open_run(run, job(folder, run, 80, {}))
    assert f'`jprep export {run}`, then set train.model.init = "{run}/export"' in caught.value.fix


@pytest.mark.parametrize("then", [{"floor": 0.1}, {"kind": "constant", "warmup": 4}])
def test_a_changed_schedule_is_named(then: dict[str, Any], folder: Path) -> None:
    run, _ = train(folder, "own", 10, CONSTANT)
    with pytest.raises(MismatchError, match=r"train.schedule has changed") as caught:
        open_run(run, job(folder, run, 20, then))
    assert "first train.schedule" in caught.value.fix


@pytest.mark.parametrize("change", [{"seed": 2}, {"batch": 4}, {"schedule": {"kind": "constant", "warmup": 4}}])
def test_other_changes_make_another_job(change: dict[str, Any], folder: Path) -> None:
    run, _ = train(folder, "own", 10, CONSTANT)
    with pytest.raises(MismatchError):
        open_run(run, job(folder, run, 20, **{"schedule": CONSTANT} | change))
    with pytest.raises(MismatchError, match="steps: was 10, is 5"):
        open_run(run, job(folder, run, 5, CONSTANT))
