"""The checkpoint with the lowest validation loss is kept, whatever the steps of validation and saving are."""

from __future__ import annotations

import contextlib
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.errors import ConfigError
from jprep.train.exporting.checkpoint_selection import select_checkpoint
from jprep.train.hooks.config import HooksConfig
from jprep.train.job import best as best_module
from jprep.train.job.best import check_best
from jprep.train.job.config import CheckpointConfig, TrainConfig, ValidationConfig
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import checkpoints_of, read_job
from jprep.train.run.events import read_events
from jprep.train.worker.metrics import classification_metrics, regression_metrics
from jprep.train.worker.next_sentence import NEXT_SENTENCE_ACCURACY, NEXT_SENTENCE_LOSS
from jprep.train.worker.rtd_figures import SUMS, rtd_figures
from jprep.train.worker.session import Session
from tests.fakes.small_run import in_thread, plan_of, small_run
from tests.fakes.two_ranks import __file__ as LAUNCHER

LOSSES = {15: 3.0, 30: 1.0, 45: 2.0, 60: 4.0}


def ready(folder: Path, every: int = 10, validate: int = 15, best: int = 1, steps: int = 60) -> Path:
    keep = CheckpointConfig(every_steps=every, keep_last=1, keep_best=best)
    validation = ValidationConfig(every_steps=validate, batches=1)
    return small_run(folder, checkpoint=keep, validation=validation, steps=steps)


def train(run: Path, losses: dict[int, float], rank: int = 0, world: int = 1, until: int = 60) -> None:
    """Train as a worker does, with given losses; end after `until` as if the process were killed."""
    session = Session(run, rank, world)
    for step, _ in session.batches():
        due = session.due(step)
        if due.validate:
            session.validated(step, losses[step])
        if due.checkpoint:
            with session.checkpoint(step) as folder:
                folder.joinpath(f"part-{rank}").write_text(str(step))
        if step == until:
            break
    session.close()


def kept(run: Path) -> dict[int, float | None]:
    return {one.step: one.commit.loss for one in checkpoints_of(run, read_job(run)).committed()}


def test_of_equal_ones_the_earliest_is_the_best(tmp_path: Path) -> None:
    run = ready(tmp_path, every=15, best=2)
    train(run, {15: 3.0, 30: 1.0, 45: 1.0, 60: 4.0})
    assert kept(run) == {30: 1.0, 45: 1.0, 60: 4.0}
    assert select_checkpoint(run, read_job(run), "best").step == 30


def test_the_best_is_saved_though_no_save_is_due_at_its_step(tmp_path: Path) -> None:
    run = ready(tmp_path)
    train(run, LOSSES)
    assert kept(run) == {30: 1.0, 60: 4.0}
    saved = [event.step for event in read_events(run) if event.kind == "checkpoint"]
    assert saved == [10, 15, 20, 30, 40, 50, 60]  # at 45 there is a better one already


def test_the_best_is_saved_in_a_thread_too(tmp_path: Path) -> None:
    run = ready(tmp_path)
    session = Session(run)
    for step, _ in session.batches():
        due = session.due(step)
        if due.validate:
            session.validated(step, LOSSES[step])
        if due.checkpoint:
            session.save(step, lambda folder: folder.joinpath("weights").touch())
    session.finish()
    assert kept(run) == {30: 1.0, 60: 4.0}


def test_without_keep_best_nothing_more_is_saved(tmp_path: Path) -> None:
    run = ready(tmp_path, best=0)
    train(run, LOSSES)
    assert [event.step for event in read_events(run) if event.kind == "checkpoint"] == [10, 20, 30, 40, 50, 60]


@settings(max_examples=25, deadline=None)
@given(
    losses=st.lists(st.sampled_from([1.0, 2.0, 3.0, 4.0, 5.0]), min_size=8, max_size=8),
    stops=st.lists(st.integers(1, 23), max_size=3),
    best=st.integers(1, 3),
)
def test_the_best_checkpoints_are_kept_across_kills(
    losses: list[float], stops: list[int], best: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    losses_by_step = dict(zip(range(3, 25, 3), losses, strict=True))
    folder = tmp_path_factory.mktemp("best")
    straight, broken = (ready(folder / name, 4, 3, best, steps=24) for name in ("straight", "broken"))
    train(straight, losses_by_step)
    for stop in sorted(stops):
        train(broken, losses_by_step, until=stop)
    train(broken, losses_by_step)
    assert kept(broken) == kept(straight)
    found = sorted(loss for loss in kept(straight).values() if loss is not None)
    assert found[:best] == sorted(losses)[:best]
    shutil.rmtree(folder)


def test_ranks_agree_on_the_best(tmp_path: Path) -> None:
    """Rank 0's loss decides: sums of floats may differ between ranks."""
    run = ready(tmp_path)
    others = {step: 10 - loss for step, loss in LOSSES.items()}
    thread = in_thread(lambda: train(run, others, 1, 2))
    train(run, LOSSES, 0, 2)
    thread.join(600)
    assert kept(run) == {30: 1.0, 60: 4.0}


@pytest.mark.parametrize("worker", [None, LAUNCHER])
def test_a_supervised_worker_saves_its_best(worker: str | None, tmp_path: Path) -> None:
    run = ready(tmp_path)
    more = (Path(worker),) if worker else ()
    assert supervise(run, plan_of(run, *more)) == 0
    measured = {event.step: event.figures["loss"] for event in read_events(run) if event.kind == "validation"}
    saved = [event.step for event in read_events(run) if event.kind == "checkpoint"]
    assert min(measured, key=lambda step: measured[step] or 0) in kept(run)
    assert 15 in saved


F1 = {15: 0.5, 30: math.nan, 45: 0.9, 60: 0.7}


def by_figure(folder: Path, best: str, best_is: str = "auto", number: int = 1) -> Path:
    how: dict[str, Any] = {"every_steps": 10, "keep_last": 1, "keep_best": number, "best": best, "best_is": best_is}
    more = {"hooks": HooksConfig(metrics=["x:f1"])}
    return small_run(
        folder, checkpoint=CheckpointConfig(**how), validation=ValidationConfig(every_steps=15, batches=1), **more
    )


def train_with_figures(run: Path, until: int = 60) -> None:
    session = Session(run)
    for step, _ in session.batches():
        due = session.due(step)
        if due.validate:
            session.validated(step, LOSSES[step], **{"metrics/f1": F1[step], "metrics/mae": F1[step]})
        if due.checkpoint:
            session.save(step, lambda folder: folder.joinpath("weights").touch())
        if step == until:
            break
    session.settle()
    session.close()


@pytest.mark.parametrize(
    ("best", "best_is", "expected"),
    [("metrics/f1", "auto", 45), ("metrics/f1", "lowest", 15), ("metrics/mae", "auto", 15), ("loss", "highest", 60)],
)
def test_the_best_by_a_figure_is_kept_across_kills(best: str, best_is: str, expected: int, tmp_path: Path) -> None:
    """An undefined figure, here that of step 30, is never the best."""
    run = by_figure(tmp_path, best, best_is)
    for until in (20, 50, 60):
        train_with_figures(run, until)
    job = read_job(run)
    found = {one.step: one.commit.figures for one in checkpoints_of(run, job).committed()}
    assert found.keys() == {expected, 60} and select_checkpoint(run, job, "best").step == expected
    assert best == "loss" or found[expected] == {best: F1[expected]}


def test_only_a_run_that_names_a_figure_records_it(tmp_path: Path) -> None:
    run = ready(tmp_path)
    train(run, LOSSES)
    for one in checkpoints_of(run, read_job(run)).committed():
        recorded = json.loads((one.folder / "COMMIT.json").read_bytes())
        assert list(recorded) == ["step", "job", "loss", "files", "seal"]


def test_a_figure_that_was_not_measured_ends_the_run(tmp_path: Path) -> None:
    run = by_figure(tmp_path, "metrics/f2")
    with pytest.raises(ConfigError, match="does not measure 'metrics/f2'") as error:
        train_with_figures(run)
    assert "metrics/f1" in error.value.fix and error.value.where == "train.checkpoint.best"


@pytest.mark.parametrize(
    ("task", "best", "message"),
    [
        ("classify", "macro_f1", ""),
        ("classify", "f1/positive", ""),
        ("classify", "f1", "does not measure 'f1'"),
        ("regress", "accuracy", "does not measure 'accuracy'"),
        ("regress", "metrics/mae", "train.hooks.metrics names none"),
        ("mlm", "macro_f1", "the task mlm does not measure 'macro_f1'"),
        ("mlm", "next_sentence_accuracy", "does not measure"),
        ("sft", "accuracy", "does not measure"),
        ("clm", "loss", ""),
        ("rtd", "recall", ""),
    ],
)
def test_a_figure_that_no_validation_measures_is_refused_before_training(task: Any, best: str, message: str) -> None:
    train = TrainConfig(task=task, checkpoint=CheckpointConfig(best=best))
    with pytest.raises(ConfigError, match=message) if message else contextlib.nullcontext():
        check_best(train)


def test_sentence_pairs_have_figures_of_their_own() -> None:
    check_best(TrainConfig(next_sentence=True, checkpoint=CheckpointConfig(best=NEXT_SENTENCE_ACCURACY)))
    assert best_module._OF_PAIRS == (NEXT_SENTENCE_LOSS, NEXT_SENTENCE_ACCURACY)


def test_the_figures_of_replaced_tokens_are_those_that_are_measured() -> None:
    assert {"loss", *best_module._OF_TASK["rtd"]} == rtd_figures([1.0] * len(SUMS), 1.0).keys()


def test_the_figures_of_labelled_tasks_are_those_that_are_measured() -> None:
    found, expected = np.array([0.0, 1.0, 1.0]), np.array([0.0, 1.0, 0.0])
    for task, measured in (
        ("classify", classification_metrics(found, expected, ["a", "b"])),
        ("regress", regression_metrics(found, expected)),
    ):
        names = {name for name in measured if not name.startswith("f1/")}
        assert names == set(best_module._OF_TASK[task])
