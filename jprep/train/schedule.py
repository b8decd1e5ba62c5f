"""The learning rate of each step. `docs/training.md` has the formulas and test vectors."""

from __future__ import annotations

import math

from jprep.errors import ConfigError
from jprep.train.job import ScheduleSection


def learning_rate(step: int, steps: int, peak: float, schedule: ScheduleSection) -> float:
    """The learning rate of a step's update: a pure function.

    Args:
        step: from 0 to below `steps`: the number of updates before this one.
        steps: how many the run has.
        peak: the highest rate.
        schedule: how it rises and falls.
    """
    if step < schedule.warmup:
        return peak * ((step + 1) / schedule.warmup)
    if schedule.kind == "constant":
        return peak
    done = (step - schedule.warmup) / (steps - schedule.warmup)
    left = 1.0 - done if schedule.kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return peak * (schedule.floor + (1.0 - schedule.floor) * left)


def check_schedule(schedule: ScheduleSection, steps: int) -> None:
    """Refuse what is no schedule.

    Raises:
        ConfigError: a warm-up longer than the run, or a floor that is no share.
    """
    where = "train.schedule"
    if not 0 <= schedule.warmup <= steps:
        fix = f"a number from 0 to {steps}, the steps of the run"
        raise ConfigError(f"a warm-up cannot take {schedule.warmup} steps", where=f"{where}.warmup", fix=fix)
    if not 0 <= schedule.floor <= 1:
        raise ConfigError("the floor is a share of the rate", where=f"{where}.floor", fix="a number from 0 to 1")
