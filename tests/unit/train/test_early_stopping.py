"""A training ends when its validations do not improve: at the same step after any interruption, on every rank."""

from __future__ import annotations

from pathlib import Path

import pytest

from jprep.errors import ConfigError
from jprep.train.job.best import NO_IMPROVEMENT, BestFigure, Patience, check_best, early_end_reason
from jprep.train.job.config import CheckpointConfig, TrainConfig, ValidationConfig
from jprep.train.launcher.supervisor import supervise
from jprep.train.results.run import load_run
from jprep.train.run.directory import checkpoints_of, read_job
from jprep.train.run.events import read_events, record_event
from jprep.train.run.resume import is_complete
from jprep.train.worker.session import Session
from tests.fakes.small_run import in_thread, plan_of, small_run

LOSSES = {10: 3.0, 20: 1.0, 30: 0.95, 40: 2.0, 50: 1.5, 60: 0.5}
STOPS = 40  # with two validations of patience and a difference of 0.1


def ready(folder: Path, **more: float) -> Path:
    validation = ValidationConfig(every_steps=10, batches=1, **{"patience": 2, "min_delta": 0.1} | more)
    return small_run(folder, checkpoint=CheckpointConfig(every_steps=25), validation=validation, steps=60)


def train(run: Path, rank: int = 0, world: int = 1, until: int = 0) -> int:
    """Train as a worker does; end after `until` as if the process were killed. Return the last step."""
    session = Session(run, rank, world)
    for step, _ in session.batches():
        due = session.due(step)
        if due.validate:
            session.validated(step, LOSSES[step])
        if step == until:
            session.close()
            return step
        if due.checkpoint:
            with session.checkpoint(step) as folder:
                folder.joinpath(f"part-{rank}").write_text(str(step))
    session.finish()
    return session.step


def saved(run: Path) -> int:
    return checkpoints_of(run, read_job(run)).committed()[-1].step


def test_a_run_ends_with_a_checkpoint_when_nothing_improves(tmp_path: Path) -> None:
    run = ready(tmp_path)
    assert train(run) == saved(run) == STOPS
    end = read_events(run)[-1]
    assert (end.kind, end.step, end.figures) == ("end", STOPS, {"code": 0.0})
    assert "patience" in end.note
    assert load_run(run).state.condition == "finished"


@pytest.mark.parametrize("killed", [5, 20, 29, 30, 40])
def test_an_interruption_does_not_change_the_end(tmp_path: Path, killed: int) -> None:
    run = ready(tmp_path)
    train(run, until=killed)
    assert train(run) == saved(run) == STOPS


def test_the_validation_at_the_end_of_fewer_steps_does_not_count(tmp_path: Path) -> None:
    run = ready(tmp_path, patience=1)
    for step, loss in ((10, 1.0), (12, 2.0)):
        record_event(run, "validation", step, {"loss": loss})
    assert is_complete(run, read_job(run), 12)  # validations may have had another interval before
    record_event(run, "end", 12, {"code": 0})  # the run had 12 steps before
    assert not is_complete(run, read_job(run), 12)
    record_event(run, "validation", 20, {"loss": 2.0})
    assert is_complete(run, read_job(run), 20)


def test_all_ranks_end_at_the_same_step(tmp_path: Path) -> None:
    run = ready(tmp_path)
    ends: list[int] = []
    thread = in_thread(lambda: ends.append(train(run, 1, 2)))
    assert train(run, 0, 2) == STOPS
    thread.join(600)
    assert ends == [STOPS]


def test_the_supervisor_does_not_restart_a_run_that_ended_early(tmp_path: Path) -> None:
    run = ready(tmp_path)
    train(run)
    before, said = read_events(run), list[str]()
    assert supervise(run, plan_of(run, tmp_path / "no such worker"), say=said.append) == 0
    assert read_events(run) == before, "no worker must have been started"
    assert said == [
        "ended early, at step 40 of 60: no improvement by more than 0.1 in validation; "
        "the best loss was 0.9500 at step 30; a larger train.validation.patience continues it"
    ]


def test_a_run_killed_before_its_last_event_says_why_it_ended(tmp_path: Path) -> None:
    run = ready(tmp_path)
    train(run)
    lines = (run / "events.jsonl").read_bytes().splitlines(keepends=True)
    (run / "events.jsonl").write_bytes(b"".join(lines[:-1]))
    assert supervise(run, plan_of(run, tmp_path / "no such worker")) == 0
    state = load_run(run).state
    assert (state.condition, state.step, state.reason) == ("finished", STOPS, NO_IMPROVEMENT)


def test_without_patience_all_steps_are_trained(tmp_path: Path) -> None:
    run = ready(tmp_path, patience=0)
    assert train(run) == 60
    assert is_complete(run, read_job(run), 60) and not is_complete(run, read_job(run), 40)


def test_the_highest_value_of_a_metric_can_be_the_best() -> None:
    patience = Patience(ValidationConfig(every_steps=1, patience=2), BestFigure("accuracy", highest=True))
    ends = []
    for accuracy in (0.5, 0.7, 0.6, 0.8, 0.8, float("nan")):
        patience.add({"loss": 1.0, "accuracy": accuracy})
        ends.append(patience.exhausted)
    assert ends == [False] * 5 + [True]


def test_the_reason_of_an_early_end_names_the_figure_that_decided() -> None:
    train = TrainConfig(checkpoint=CheckpointConfig(best="macro_f1"), validation=ValidationConfig(every_steps=10))
    measured = {10: {"loss": 1.0, "macro_f1": 0.5}, 20: {"loss": 0.5, "macro_f1": 0.75}, 30: {"macro_f1": 0.75}}
    assert early_end_reason(train, measured) == "no improvement in validation; the best macro_f1 was 0.7500 at step 20"
    assert early_end_reason(train, {10: {"loss": 1.0}}).endswith("macro_f1 was never measured")


def test_patience_needs_validations() -> None:
    with pytest.raises(ConfigError, match="patience needs validations"):
        check_best(TrainConfig(validation=ValidationConfig(patience=3)))
