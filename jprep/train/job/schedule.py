"""Learning rate schedules, and the loss scale of fp16. `docs/training.md` has the formulas and test vectors."""

from __future__ import annotations

import math

import msgspec

from jprep.errors import ConfigError
from jprep.train.job.config import Precision, ScheduleConfig

INITIAL_LOSS_SCALE, LOSS_SCALE_GROWTH_INTERVAL = 2.0**16, 2000
"""The loss scale of fp16 before the first step, and the number of good steps after which it is doubled."""


def learning_rate(step: int, steps: int, peak: float, schedule: ScheduleConfig) -> float:
    """Return the learning rate of a step's update.

    Args:
        step: the number of updates before this one, from 0 to below `steps`.
        steps: the number of steps of the run.
        peak: the peak rate.
        schedule: the schedule.
    """
    steps = schedule.total or steps
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
    """Return whether two schedules give every step of the old, shorter run the same learning rate.

    They may differ in notation: `total = 0` means the end of the run, and a constant rate has no end.
    """
    ends = (0, 0) if new.kind == "constant" else (old.total or old_steps, new.total or new_steps)
    first, second = (msgspec.structs.replace(one, total=end) for one, end in zip((old, new), ends, strict=True))
    return first == second


def check_schedule(schedule: ScheduleConfig, steps: int) -> None:
    """Check a schedule.

    Raises:
        ConfigError: the warm-up is longer than the schedule, or a number is out of its range.
    """
    where, total = "train.schedule", schedule.total or steps
    if schedule.total < 0:
        raise ConfigError("schedule.total is negative", where=f"{where}.total", fix="give 0 or more")
    if not 0 <= schedule.warmup <= total:
        fix = f"give a number from 0 to {total}, the steps of the schedule"
        raise ConfigError(f"a warm-up cannot take {schedule.warmup} steps", where=f"{where}.warmup", fix=fix)
    if not 0 <= schedule.floor <= 1:
        fix = "give a number from 0 to 1, a fraction of the peak rate"
        raise ConfigError("the floor is out of its range", where=f"{where}.floor", fix=fix)


def initial_loss_scale(precision: Precision) -> float:
    """Return the loss scale before the first step; 1 except in fp16."""
    return INITIAL_LOSS_SCALE if precision == "fp16" else 1.0
