"""The checkpoint with the lowest validation loss is kept, whatever the steps of validation and saving are."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jprep.train.job.config import CheckpointConfig, ValidationConfig
from jprep.train.launcher.supervisor import supervise
from jprep.train.run.directory import checkpoints_of, read_job
from jprep.train.run.events import read_events
from jprep.train.worker.session import Session
from tests.fakes.small_run import in_thread, plan_of, small_run
from tests.fakes.two_ranks import __file__ as LAUNCHER

LOSSES = {15: 3.0, 30: 1.0, 45: 2.0, 60: 4.0}


def ready(folder: Path, every: int = 10, validate: int = 15, best: int = 1) -> Path:
    keep = CheckpointConfig(every_steps=every, keep_last=1, keep_best=best)
    return small_run(folder, checkpoint=keep, validation=ValidationConfig(every_steps=validate, batches=1))


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
    stops=st.lists(st.integers(1, 59), max_size=3),
    best=st.integers(1, 3),
)
def test_the_best_checkpoints_are_kept_across_kills(
    losses: list[float], stops: list[int], best: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    losses_by_step = dict(zip((*range(8, 60, 8), 60), losses, strict=True))
    folder = tmp_path_factory.mktemp("best")
    straight, broken = (ready(folder / name, 10, 8, best) for name in ("straight", "broken"))
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
