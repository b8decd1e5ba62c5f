"""How often a comparison of a recipe with itself shows a difference: it should be once in twenty times."""

from __future__ import annotations

import msgspec
import numpy as np

from jprep.compare.statistics.differences import LEVEL, Floats, Measure, ScoreTable, compare_arms
from jprep.compare.statistics.student_t import t_quantile
from jprep.random.counter_bits import below, bits, key


class FalseAlarms(msgspec.Struct, frozen=True):
    """What comparisons of a recipe with itself showed.

    Attributes:
        pairs: number of comparisons.
        shown: number of them that showed a difference.
        rate: share of them.
        low: lower end of the share's 95 % interval (Wilson's).
        high: upper end.
        seeds: seeds of each arm of a comparison.
    """

    pairs: int
    shown: int
    rate: float
    low: float
    high: float
    seeds: int


def false_alarm_rate(
    values: Floats, weights: Floats, measure: Measure, *, seeds: int = 3, pairs: int = 1000, key_seed: int = 0
) -> FalseAlarms:
    """Compare runs of one recipe with other runs of it many times, and count the differences shown.

    Each comparison draws two sets of different runs, pairs them in random order, and draws the items again with
    replacement. With few runs the comparisons have most of them in common: give at least 4 runs for each seed.

    Args:
        values: (runs, items), as in `ScoreTable`, of one recipe with different seeds.
        weights: (items).
        measure: what the values are.
        seeds: runs of each set; twice as many are needed.
        pairs: number of comparisons.
        key_seed: seed of the random draws.

    Raises:
        ValueError: there are too few runs.
    """
    runs, items = values.shape
    if runs < 2 * seeds:
        raise ValueError(f"two sets of {seeds} runs need {2 * seeds} runs, got {runs}")
    shown = 0
    for pair in range(pairs):
        order = np.argsort(_words("runs", key_seed, pair, runs))[: 2 * seeds].reshape(2, seeds)
        drawn = below(items, _words("items", key_seed, pair, items)).astype(np.int64)
        table = ScoreTable(
            measure,
            ("A", "A'"),
            range(seeds),
            [str(n) for n in range(items)],
            values[order][:, :, drawn],
            weights[drawn],
        )
        shown += compare_arms(table)[0].is_shown
    return FalseAlarms(pairs, shown, shown / pairs, *share_interval(shown, pairs), seeds)


def share_interval(count: int, total: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share."""
    z2 = t_quantile(0.5 + LEVEL / 2, 1e9) ** 2
    share, scale = count / total, 1 + z2 / total
    middle = (share + z2 / (2 * total)) / scale
    half = ((z2 * share * (1 - share) + z2**2 / (4 * total)) / total) ** 0.5 / scale
    return max(0.0, middle - half), min(1.0, middle + half)


def _words(purpose: str, key_seed: int, pair: int, number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.uint64]]:
    return bits(key("false alarms", purpose, key_seed, pair), np.arange(number, dtype=np.uint64))
