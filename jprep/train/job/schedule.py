"""The learning rate of each step. `docs/training.md` has the formulas and test vectors."""

from __future__ import annotations

import math

import msgspec

from jprep.errors import ConfigError
from jprep.train.job.config import ScheduleConfig


def learning_rate(step: int, steps: int, peak: float, schedule: ScheduleConfig) -> float:
    """The learning rate of a step's update: a pure function.

    Args:
        step: from 0 to below `steps`: the number of updates before this one.
        steps: how many the run has.
        peak: the highest rate.
        schedule: how it rises and falls.
    """
    steps = schedule.steps or steps
    if step < schedule.warmup:
        return peak * ((step + 1) / schedule.warmup)
    if schedule.kind == "constant":
        return peak
    if step >= steps:
        return peak * schedule.floor
    done = (step - schedule.warmup) / (steps - schedule.warmup)
    left = 1.0 - done if schedule.kind == "linear" else 0.5 * (1.0 + math.cos(math.pi * done))
    return peak * (schedule.floor + (1.0 - schedule.floor) * left)


def gives_same_rates(old: ScheduleConfig, old_steps: int, new: ScheduleConfig, new_steps: int) -> bool:
    """Return whether two schedules give each step of the shorter run, the old one, the same learning rate.

    They may be written differently: the end that a schedule names may be the end of the run, and a constant rate has
    no end.
    """
    ends = (0, 0) if new.kind == "constant" else (old.steps or old_steps, new.steps or new_steps)
    first, second = (msgspec.structs.replace(one, steps=end) for one, end in zip((old, new), ends, strict=True))
    return first == second


def check_schedule(schedule: ScheduleConfig, steps: int) -> None:
    """Refuse what is no schedule.

    Raises:
        ConfigError: a warm-up longer than the schedule, or a floor that is no share.
    """
    where, total = "train.schedule", schedule.steps or steps
    if schedule.steps < 0:
        raise ConfigError("a schedule cannot end before it begins", where=f"{where}.steps", fix="give 0 or more")
    if not 0 <= schedule.warmup <= total:
        fix = f"a number from 0 to {total}, the steps of the schedule"
        raise ConfigError(f"a warm-up cannot take {schedule.warmup} steps", where=f"{where}.warmup", fix=fix)
    if not 0 <= schedule.floor <= 1:
        raise ConfigError("the floor is a share of the rate", where=f"{where}.floor", fix="a number from 0 to 1")
