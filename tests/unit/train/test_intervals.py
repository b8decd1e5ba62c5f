"""Intervals of validation and checkpoints, in steps and in epochs."""

from __future__ import annotations

import contextlib
import math
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jprep.errors import ConfigError
from jprep.pipeline.recipe import Recipe
from jprep.pipeline.tiny_scale import scale_down
from jprep.train.job.config import CheckpointConfig, Job, ValidationConfig, parse_train_config
from jprep.train.job.intervals import is_interval_end
from jprep.train.job.ranges import check_train_ranges
from jprep.train.run.directory import read_job
from jprep.train.worker.session import Session
from tests.fakes.small_run import small_run
from tests.fakes.trained_run import trained_run


class _Train(NamedTuple):
    batch: int


class _Job(NamedTuple):
    samples: int
    train: _Train


def ends(samples: int, batch: int, steps: int, **every: Any) -> list[int]:
    job = cast(Job, _Job(samples, _Train(batch)))
    return [step for step in range(1, steps + 1) if is_interval_end(CheckpointConfig(**every), step, job)]


def test_an_interval_ends_with_the_step_that_completes_it() -> None:
    assert ends(100, 8, 40, every_steps=0, every_epochs=1) == [13, 25, 38]  # 12.5, 25, 37.5
    assert ends(100, 8, 26, every_steps=0, every_epochs=0.5) == [7, 13, 19, 25]
    assert ends(100, 8, 26, every_steps=10, every_epochs=1) == [10, 13, 20, 25]
    assert ends(100, 8, 26, every_steps=0) == []
    assert ends(3, 8, 4, every_steps=0, every_epochs=1) == [1, 2, 3, 4]  # a step is more than an epoch


@given(st.integers(1, 10**6), st.integers(1, 512), st.integers(1, 60), st.integers(1, 99))
def test_ends_of_intervals_are_the_steps_of_so_many_epochs(samples: int, batch: int, steps: int, share: int) -> None:
    epochs = share / 10
    interval = Fraction(share, 10) * samples / batch
    expected = {math.ceil(number * interval) for number in range(1, int(steps / interval) + 2)}
    assert ends(samples, batch, steps, every_steps=0, every_epochs=epochs) == sorted(
        step for step in expected if step <= steps
    )


def test_a_session_validates_and_saves_by_epochs(tmp_path: Path) -> None:
    keep = CheckpointConfig(every_steps=0, every_epochs=0.3)
    run = small_run(tmp_path, steps=60, checkpoint=keep, validation=ValidationConfig(every_epochs=0.2))
    with contextlib.closing(Session(run)) as session:
        rows, due = Fraction(session.job.samples, session.job.train.batch), {}
        for step, _ in session.batches():
            due[step] = session.due(step)
    epochs, longer = (
        [math.ceil(n * e * rows) for n in range(1, 99) if n * e * rows <= 60]
        for e in (Fraction("0.2"), Fraction("0.3"))
    )
    assert [step for step in due if due[step].validate] == sorted({*epochs, 60})
    assert [step for step in due if due[step].checkpoint] == sorted({*longer, 60})
    assert len(epochs) > 2


def test_the_fingerprint_does_not_depend_on_them(tmp_path: Path) -> None:
    plain = read_job(trained_run(tmp_path / "plain"))
    changed = read_job(trained_run(tmp_path / "changed", checkpoint={"every_epochs": 1}))
    assert plain.fingerprint == changed.fingerprint


def test_negative_and_endless_intervals_are_refused() -> None:
    for table in ("checkpoint", "validation"):
        for value in (-1.0, math.inf):
            with pytest.raises(ConfigError, match=f"train.{table}.every_epochs"):
                check_train_ranges(parse_train_config({"steps": 1, table: {"every_epochs": value}}, "here"))


def test_a_tiny_run_validates_and_saves_too() -> None:
    train = parse_train_config({"epochs": 3, "checkpoint": {"every_steps": 0, "every_epochs": 1}}, "here")
    small = scale_down(Recipe(name="x", train=train)).train
    assert small is not None
    assert small.checkpoint.every_steps > 0
    assert small.checkpoint.every_epochs == 0
