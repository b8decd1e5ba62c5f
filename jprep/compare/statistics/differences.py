"""Differences between arms, with intervals over seeds and items. `docs/compare-tasks.md` has the method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import expm1, log, sqrt

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.compare.statistics.student_t import t_quantile, t_two_sided

Floats = npt.NDArray[np.float64]

LEVEL = 0.95
"""Level of the intervals; a difference is shown if its adjusted p is below 1 - LEVEL."""
POWER = 0.8
"""Share of comparisons in which the smallest detectable difference would be shown."""

_MOST_DF = 1e7  # Student's t is the normal distribution from here on


class Measure(msgspec.Struct, frozen=True):
    """What is measured, and how a difference is stated.

    Attributes:
        name: e.g. `bits per character`.
        relative: differences are ratios, stated in %; otherwise they are stated in the measure's own unit.
        lower_is_better: whether the smaller score wins.
        items: what an item is, in the plural.
    """

    name: str
    relative: bool
    lower_is_better: bool
    items: str


BITS_PER_CHARACTER = Measure("bits per character", True, True, "documents")
ACCURACY = Measure("accuracy", False, False, "items")
ANSWER_BITS = Measure("bits per character of the answer", True, True, "items")


@dataclass(frozen=True)
class ScoreTable:
    """Scores of arms whose runs are paired by seed, on the same items.

    Attributes:
        measure: what the values are.
        arms: names.
        seeds: of the runs; the run of an arm and a seed is paired with the other arms' runs of that seed.
        items: ids.
        values: (arms, seeds, items): bits of a document, or 1 for a correct answer and 0 for a wrong one.
        weights: (items): characters of a document, or 1. A score is the sum of values over the sum of weights.

    Raises:
        ValueError: the shapes do not match, a value is not finite, or a weight is not above 0.
    """

    measure: Measure
    arms: Sequence[str]
    seeds: Sequence[int]
    items: Sequence[str]
    values: Floats
    weights: Floats

    def __post_init__(self) -> None:
        """Refuse a table that no interval can be computed from."""
        shape = (len(self.arms), len(self.seeds), len(self.items))
        if self.values.shape != shape or self.weights.shape != shape[2:]:
            raise ValueError(f"values must be {shape} and weights {shape[2:]}, got {self.values.shape}")
        if shape[1] < 1 or shape[2] < 2:
            raise ValueError(f"a comparison needs at least 1 seed and 2 items, got {shape[1]} and {shape[2]}")
        for arm, seed, item in np.argwhere(~np.isfinite(self.values)):
            where = f"{self.arms[arm]}, seed {self.seeds[seed]}, {self.items[item]}"
            raise ValueError(f"a score is not a finite number: {where}")
        if not (np.isfinite(self.weights) & (self.weights > 0)).all():
            raise ValueError("weights must be above 0")
        if self.measure.relative and not (self.values.sum(axis=2) > 0).all():
            raise ValueError(f"{self.measure.name}: the sum over the items must be above 0 for every run")

    def scores(self) -> Floats:
        """Return the score of each run, (arms, seeds)."""
        result: Floats = self.values.sum(axis=2) / self.weights.sum()
        return result


class Difference(msgspec.Struct, frozen=True):
    """The difference between two arms in one measure.

    Attributes:
        measure: what was measured.
        first: name of an arm.
        second: name of the arm it is compared with.
        first_score: mean score over the seeds.
        second_score: mean score over the seeds.
        estimate: first minus second: a logarithm of their ratio if the measure is relative, else a difference.
        standard_error: of the estimate, over seeds and items (items only if there is one seed).
        df: degrees of freedom of the standard error.
        low: lower end of the estimate's interval.
        high: upper end.
        p: probability of a difference at least as large if the arms were equal.
        p_adjusted: p after Holm's correction for the number of pairs compared.
        pairs: number of pairs compared.
        seeds: number of seeds.
        items: number of items.
        seed_share: share of the variance that comes from the seeds; nothing if there is one seed.
        detectable: the true difference, as `estimate`, that would be shown in 4 of 5 comparisons like this one.
    """

    measure: Measure
    first: str
    second: str
    first_score: float
    second_score: float
    estimate: float
    standard_error: float
    df: float
    low: float
    high: float
    p: float
    p_adjusted: float
    pairs: int
    seeds: int
    items: int
    seed_share: float | None
    detectable: float

    @property
    def is_shown(self) -> bool:
        """Whether the arms differ beyond what chance explains, after the correction for the number of pairs."""
        return self.p_adjusted < 1 - LEVEL

    @property
    def better(self) -> str:
        """The arm with the better score, whether or not the difference is shown."""
        return self.first if (self.estimate < 0) == self.measure.lower_is_better else self.second


def compare_arms(table: ScoreTable) -> list[Difference]:
    """Compare each pair of arms, with Holm's correction over the pairs.

    Args:
        table: the scores of at least two arms.

    Returns:
        One difference for each pair, in the order of the arms.
    """
    pairs = list(combinations(range(len(table.arms)), 2))
    found = [_compare(table, first, second) for first, second in pairs]
    adjusted = holm([difference.p for difference in found])
    return [
        msgspec.structs.replace(difference, p_adjusted=p, pairs=len(pairs))
        for difference, p in zip(found, adjusted, strict=True)
    ]


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values adjusted by Holm's method, in the same order."""
    adjusted, largest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        largest = max(largest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = largest
    return adjusted


def _compare(table: ScoreTable, first: int, second: int) -> Difference:
    estimate, residuals = _estimate(table, first, second)
    error, df, seed_share = two_way_error(residuals)
    if error == 0:  # the same difference everywhere: as uncertain as if one item had none
        error, df = abs(estimate) / len(table.items), float(len(table.items) - 1)
    if error == 0:
        p, half, detectable = 1.0, 0.0, 0.0
    else:
        p, critical = t_two_sided(estimate / error, df), t_quantile(0.5 + LEVEL / 2, df)
        half, detectable = critical * error, (critical + t_quantile(POWER, df)) * error
    scores = [float(score) for score in table.scores().mean(axis=1)]
    return Difference(
        measure=table.measure,
        first=table.arms[first],
        second=table.arms[second],
        first_score=scores[first],
        second_score=scores[second],
        estimate=estimate,
        standard_error=error,
        df=df,
        low=estimate - half,
        high=estimate + half,
        p=p,
        p_adjusted=p,
        pairs=1,
        seeds=len(table.seeds),
        items=len(table.items),
        seed_share=seed_share,
        detectable=detectable,
    )


def _estimate(table: ScoreTable, first: int, second: int) -> tuple[float, Floats]:
    """Return the difference and what each seed and item adds to it, (seeds, items), with mean 0.

    A score is a ratio of sums, so the residuals are those of its linear approximation (delta method).
    """
    one, other = table.values[first], table.values[second]
    if table.measure.relative:
        return log(one.sum() / other.sum()), one / one.mean() - other / other.mean()
    share = table.weights / table.weights.mean()
    estimate = float((one - other).mean() / table.weights.mean())
    return estimate, (one - other) / table.weights.mean() - estimate * share


def two_way_error(residuals: Floats) -> tuple[float, float, float | None]:
    """Return the standard error of a mean over seeds and items that are both samples.

    Seeds and items are crossed random effects. The variance is that of the seeds' means, which holds the interaction,
    plus that of the items' effects, from their mean squares. The degrees of freedom combine
    those of both so that the error rate stays near its nominal value also with few seeds, where Satterthwaite's formula
    exceeds it. If seeds' means and items' effects have no variance at all, it is that of the interaction.

    Args:
        residuals: (seeds, items).

    Returns:
        Standard error, degrees of freedom, share of the variance that comes from the seeds (nothing for one seed).
    """
    seeds, items = residuals.shape
    by_item = residuals.mean(axis=0)
    item_square = seeds * float(((by_item - by_item.mean()) ** 2).sum()) / (items - 1)
    if seeds == 1:
        return sqrt(item_square / items), float(items - 1), None
    by_seed = residuals.mean(axis=1)
    seed_square = items * float(((by_seed - by_seed.mean()) ** 2).sum()) / (seeds - 1)
    rest = residuals - by_item - by_seed[:, None] + by_item.mean()
    rest_df = (seeds - 1) * (items - 1)
    rest_square = float((rest**2).sum()) / rest_df
    surplus = max(0.0, item_square - rest_square)  # of the items' own effects, without the interaction
    total = seed_square + surplus
    if total == 0:  # by chance, as answers are right or wrong: what is left is the interaction
        return sqrt(rest_square / (seeds * items)), float(rest_df), 1.0
    share = seed_square / total
    surplus_variance = item_square**2 / (items - 1) + rest_square**2 / rest_df
    item_df = surplus**2 / surplus_variance if surplus_variance else _MOST_DF
    df = _combined_df(share, seeds - 1, max(1.0, item_df))
    return sqrt(total / (seeds * items)), df, share


def _combined_df(share: float, seed_df: int, item_df: float) -> float:
    """Combine the degrees of freedom of two variances.

    Satterthwaite's formula has squares of both shares. With few seeds their variance is often found much too small, its
    share with it, and the result much too large; the first power, and the square root for two seeds, make up for that.
    """
    weight = sqrt(share) if seed_df == 1 else share
    return min(_MOST_DF, 1 / (weight / seed_df + (1 - share) ** 2 / item_df))


def percent(log_ratio: float) -> float:
    """Return a logarithm of a ratio as a change in %."""
    return 100 * expm1(log_ratio)
