"""Learning rate schedules. `docs/training.md` has the formulas and test vectors."""

from __future__ import annotations

import math
from bisect import bisect_right
from itertools import pairwise
from typing import Literal

from jprep.config import ConfigSection
from jprep.errors import ConfigError

_WHERE = "train.schedule"
_DECAYING = ("linear", "cosine", "wsd")


class ScheduleConfig(ConfigSection, frozen=True):
    """The learning rate schedule.

    Attributes:
        kind: how the rate decays to `floor` after the warm-up: `wsd` stays at the peak until the last `decay_steps`;
            `inverse_sqrt` falls with the square root of the steps, and `floor` is the least.
        warmup: steps of linear warm-up from 0.
        floor: the final rate as a fraction of `lr`.
        total: the step at which the rate reaches `floor`, where it stays; it may lie after the end of the run, whose
            last rate is then higher. 0 is the end of the run.
        decay_steps: steps of the decay of `wsd`; 0 is a tenth of `total`.
        decay_shape: the decay of `wsd`: `1-sqrt` falls fast at its beginning, `linear` evenly.
        restarts: steps at which the schedule begins again at the peak, such as the first steps of the stages of a
            mixture; the decay before each reaches `floor` there.
        restart_warmup: steps of linear warm-up from 0 after each restart.
        steps: the former name of `total`, accepted in this release.
    """

    kind: Literal["linear", "cosine", "constant", "wsd", "inverse_sqrt"] = "linear"
    warmup: int = 0
    floor: float = 0.0
    total: int = 0
    decay_steps: int = 0
    decay_shape: Literal["1-sqrt", "linear"] = "1-sqrt"
    restarts: list[int] = []
    restart_warmup: int = 0
    steps: int = 0


def learning_rate(step: int, steps: int, peak: float, schedule: ScheduleConfig) -> float:
    """Return the learning rate of a step's update.

    Args:
        step: the number of updates before this one, from 0 to below `steps`.
        steps: the number of steps of the run.
        peak: the peak rate.
        schedule: the schedule.
    """
    cycle = bisect_right(schedule.restarts, step)
    begin, end = _cycles(schedule, steps)[cycle]
    warmup = schedule.restart_warmup if cycle else schedule.warmup
    step, steps = step - begin, end - begin
    if step < warmup:
        return peak * ((step + 1) / warmup)
    if schedule.kind == "inverse_sqrt":
        return peak * max(schedule.floor, math.sqrt(max(warmup, 1) / (step + 1)))
    if schedule.kind == "constant":
        return peak
    if step >= steps:
        return peak * schedule.floor
    return peak * (schedule.floor + (1.0 - schedule.floor) * _left(schedule, step, steps, warmup))


def _left(schedule: ScheduleConfig, step: int, steps: int, warmup: int) -> float:
    """Return what is left of the way from the peak to the floor, from 1 to 0."""
    begin = max(warmup, steps - _decay_steps(schedule, steps)) if schedule.kind == "wsd" else warmup
    if step < begin:
        return 1.0
    done = (step - begin) / (steps - begin)
    if schedule.kind == "cosine":
        return 0.5 * (1.0 + math.cos(math.pi * done))
    return 1.0 - (math.sqrt(done) if schedule.kind == "wsd" and schedule.decay_shape == "1-sqrt" else done)


def _cycles(schedule: ScheduleConfig, steps: int) -> list[tuple[int, int]]:
    """Return the first step of each cycle of a schedule, and the step after its last one."""
    return list(pairwise([0, *schedule.restarts, schedule.total or steps]))


def _decay_steps(schedule: ScheduleConfig, steps: int) -> int:
    return schedule.decay_steps or max(1, steps // 10)


def gives_same_rates(old: ScheduleConfig, old_steps: int, new: ScheduleConfig, new_steps: int) -> bool:
    """Return whether two schedules give every step of the old, shorter run the same learning rate.

    A stable rate can be continued by its decay: `constant` by `wsd`.
    """
    steps = range(old_steps)
    return all(learning_rate(step, old_steps, 1.0, old) == learning_rate(step, new_steps, 1.0, new) for step in steps)


def check_schedule(schedule: ScheduleConfig, steps: int) -> None:
    """Check a schedule.

    Raises:
        ConfigError: a number is out of its range, or a warm-up or decay is longer than its part of the schedule.
    """
    if schedule.total < 0:
        raise ConfigError("schedule.total is negative", where=f"{_WHERE}.total", fix="give 0 or more")
    if not 0 <= schedule.floor <= 1:
        fix = "give a number from 0 to 1, a fraction of the peak rate"
        raise ConfigError("the floor is out of its range", where=f"{_WHERE}.floor", fix=fix)
    _check_restarts(schedule, schedule.total or steps)
    for number, (begin, end) in enumerate(_cycles(schedule, steps)):
        key = "restart_warmup" if number else "warmup"
        _check_length(key, "a warm-up", getattr(schedule, key), end - begin)
        if schedule.kind == "wsd":
            _check_length("decay_steps", "a decay", schedule.decay_steps, end - begin - getattr(schedule, key))


def _check_restarts(schedule: ScheduleConfig, end: int) -> None:
    if schedule.restarts and schedule.kind not in _DECAYING:
        fix = f"use kind = {' or '.join(map(repr, _DECAYING))}, or remove restarts"
        raise ConfigError(f"{schedule.kind} has no restarts", where=f"{_WHERE}.restarts", fix=fix)
    if any(earlier >= later for earlier, later in pairwise([0, *schedule.restarts, end])):
        fix = f"give increasing steps from 1 to {end - 1}"
        raise ConfigError("the restarts are not in order", where=f"{_WHERE}.restarts", fix=fix)


def _check_length(key: str, what: str, length: int, most: int) -> None:
    if not 0 <= length <= most:
        fix = f"give a number from 0 to {most}, the steps of its part of the schedule"
        raise ConfigError(f"{what} cannot take {length} steps", where=f"{_WHERE}.{key}", fix=fix)
