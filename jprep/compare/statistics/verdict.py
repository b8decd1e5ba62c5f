"""Plain sentences about differences between arms."""

from __future__ import annotations

from math import exp

from jprep.compare.statistics.differences import LEVEL, POWER, Difference, Measure, percent


def verdict(difference: Difference) -> str:
    """Return one sentence without a full stop, e.g. `A is better than B: 0.8 % ± 0.3 % fewer bits per character (…)`.

    Names of arms are as given: whoever shows the sentence escapes it.
    """
    first, second = difference.first, difference.second
    if difference.is_shown:
        better, worse = (first, second) if difference.better == first else (second, first)
        return f"{better} is better than {worse}: {_advantage(difference)} ({_basis(difference)})"
    if difference.standard_error == 0 and difference.estimate == 0:
        return f"{first} and {second} have the same scores for all {difference.measure.items}"
    return (
        f"no difference between {first} and {second} can be shown with this budget: {_observed(difference)} "
        f"({_basis(difference)}{_holm(difference)}); a true difference of {detectable_text(difference)} would be shown "
        f"{100 * POWER:.0f} % of the time"
    )


def pairs_note(pairs: int) -> str:
    """Return how several pairs of arms are judged; "" for one pair."""
    if pairs < 2:
        return ""
    return (
        f"{pairs} pairs were compared: a difference counts as shown if its p-value is below {1 - LEVEL:.2g} after "
        "Holm's correction; each interval is for its pair alone"
    )


def advantage(difference: Difference) -> tuple[float, float, float]:
    """Return how much better the first arm is, and the interval of that; negative where it is worse.

    In % of the worse arm's score if the measure is relative, as in the sentences; else in percentage points.
    """
    sign = -1 if difference.measure.lower_is_better else 1
    low, high = sorted((sign * difference.low, sign * difference.high))
    value, low, high = (_size(difference.measure, end) for end in (sign * difference.estimate, low, high))
    return value, low, high


def _size(measure: Measure, better: float) -> float:
    """Return an advantage on the scale of an estimate as it is stated, with its sign."""
    if not measure.relative:
        return 100 * better
    share = -percent(-abs(better)) if measure.lower_is_better else percent(abs(better))
    return share if better > 0 else -share


def detectable_text(difference: Difference) -> str:
    """Return the smallest difference that would be shown in 4 of 5 such comparisons, with its unit."""
    if difference.measure.relative:
        return f"{_digits(percent(difference.detectable))} %"
    return _points(100 * difference.detectable)


def _advantage(difference: Difference) -> str:
    """Return how much better the better arm is, relative to the other one."""
    measure, size, half = difference.measure, abs(difference.estimate), _half(difference)
    if not measure.relative:
        return f"{measure.name} {'lower' if measure.lower_is_better else 'higher'} by {_plus_minus(size, half, 100)}"
    if measure.lower_is_better:
        change, width = -percent(-size), 100 * exp(-size) * half
    else:
        change, width = percent(size), 100 * exp(size) * half
    number, margin = _rounded(change, width)
    return f"{number} % ± {margin} % {'fewer' if measure.lower_is_better else 'more'} {measure.name}"


def _observed(difference: Difference) -> str:
    """Return which arm was better by how much, though that may be chance."""
    if difference.estimate == 0:
        return "their mean scores are equal"
    return f"{difference.better} had {_advantage(difference)}"


def _basis(difference: Difference) -> str:
    level = f"{100 * LEVEL:.0f} % interval"
    if difference.seeds == 1:
        return f"{level} over {difference.items} {difference.measure.items} only: one seed says nothing about others"
    return f"{level} over {difference.seeds} seeds and {difference.items} {difference.measure.items}"


def _holm(difference: Difference) -> str:
    """Return why a difference does not count whose own interval leaves out 0."""
    return f"; not after Holm's correction for {difference.pairs} pairs" if difference.p < 1 - LEVEL else ""


def _half(difference: Difference) -> float:
    return (difference.high - difference.low) / 2


def _plus_minus(value: float, half: float, scale: float) -> str:
    number, margin = _rounded(scale * value, scale * half)
    return f"{number} ± {margin} percentage points"


def _points(value: float) -> str:
    return f"{_digits(value)} percentage points"


def _rounded(value: float, margin: float) -> tuple[str, str]:
    """Return both with the decimals that leave the margin two significant digits, at least one decimal."""
    places = next((n for n in (1, 2, 3, 4) if margin >= 10**-n), 5) if margin else 3
    places += margin < 2 * 10**-places
    return f"{value:.{places}f}", f"{margin:.{places}f}"


def _digits(value: float) -> str:
    return _rounded(value, value)[0]
