"""Judge the arms by their models' scores."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from jprep.compare.result import Judgement, TaskResult
from jprep.compare.statistics.differences import BITS_PER_CHARACTER, Difference, Measure, ScoreTable, compare_arms
from jprep.compare.statistics.verdict import advantage, verdict

_FEWEST_ITEMS = 2

AS_SEEN = "bits per character as seen"

Scores = Sequence[Sequence[Sequence[float]]]
"""Values by arm, seed and item."""


def judge_texts(
    arms: Sequence[str],
    seeds: Sequence[int],
    items: Sequence[str],
    characters: Sequence[int],
    bits: Scores,
    restoring: Sequence[Sequence[float]],
) -> list[Judgement]:
    """Return the verdicts by bits per character: with the bits that restore the texts, and without.

    Args:
        arms: their names.
        seeds: the seeds.
        items: ids of the held-out texts.
        characters: of each text as it was read.
        bits: of each text as an arm's pipeline sees it.
        restoring: by arm and item.
    """
    seen = np.array(bits, np.float64)
    charged = seen + np.array(restoring, np.float64)[:, None, :]
    weights = np.array(characters, np.float64)
    found = judge(ScoreTable(BITS_PER_CHARACTER, arms, seeds, items, charged, weights), primary=True)
    if any(map(any, restoring)):
        measure = Measure(AS_SEEN, True, True, BITS_PER_CHARACTER.items)
        found += judge(ScoreTable(measure, arms, seeds, items, seen, weights), primary=False)
    return found


def judge_task(arms: Sequence[str], seeds: Sequence[int], task: TaskResult) -> list[Judgement]:
    """Return the verdicts by a task; none if fewer than two items are scored.

    Args:
        arms: their names.
        seeds: the seeds.
        task: the answers.
    """
    if task.items < _FEWEST_ITEMS:
        return []
    measure = Measure(f"{task.name} {task.metric}", task.lower_is_better, task.lower_is_better, "items")
    items = [str(number) for number in range(task.items)]
    values, weights = np.array(task.correct, np.float64), np.array(task.weights, np.float64)
    return judge(ScoreTable(measure, arms, seeds, items, values, weights), primary=False)


def judge(table: ScoreTable, *, primary: bool) -> list[Judgement]:
    """Return the verdict on each pair of arms.

    Args:
        table: the scores.
        primary: whether these are the verdicts of the comparison.
    """
    return [_judgement(difference, primary) for difference in compare_arms(table)]


def _judgement(difference: Difference, primary: bool) -> Judgement:
    value, low, high = advantage(difference)
    return Judgement(
        a=difference.first,
        b=difference.second,
        measure=difference.measure.name,
        primary=primary,
        unit="%" if difference.measure.relative else "points",
        difference=value,
        low=low,
        high=high,
        better=difference.better if difference.is_shown else "",
        sentence=verdict(difference),
    )
