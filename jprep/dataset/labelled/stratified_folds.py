"""Folds with equal shares of each label, or of each bin of a score. `docs/sampling.md` has the rule and an example.

All arithmetic is exact, and no random generator takes part: equal rows give equal folds on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from jprep.dataset.labelled.reader import LabelledConfig, LabelledTask, Stratify
from jprep.dataset.sampling.sample_index import Integers
from jprep.errors import ConfigError


def assign_stratified_folds(hashes: Sequence[int], strata: Sequence[int], folds: int) -> Integers:
    """Return the fold of each row, so that every fold has an equal share of each stratum.

    Rows with the same text are in one fold, with the lowest of their strata. The texts of the first stratum, in the
    order of their hashes, are dealt to folds 0, 1, …; those of the next stratum continue where these end. So the number
    of texts of a stratum in two folds differs by at most one, as does the number of all texts; and the order of the
    rows has no effect.

    Args:
        hashes: the hash of each row's texts.
        strata: the stratum of each row, from 0.
        folds: the number of folds.
    """
    stratum_of: dict[int, int] = {}
    for text_hash, stratum in zip(hashes, strata, strict=True):
        stratum_of[text_hash] = min(stratum, stratum_of.get(text_hash, stratum))
    order = sorted(stratum_of, key=lambda text_hash: (stratum_of[text_hash], text_hash))
    fold_of = {text_hash: place % folds for place, text_hash in enumerate(order)}
    return np.array([fold_of[text_hash] for text_hash in hashes], np.int64)


def find_strata(labels: Sequence[str | float], config: LabelledConfig, names: Sequence[str]) -> list[int]:
    """Return the stratum of each row.

    Args:
        labels: the label or the score of each row.
        config: the kind of strata, and the number of bins.
        names: the labels in order; empty for scores.
    """
    if config.stratify == "label":
        indices = {name: index for index, name in enumerate(names)}
        return [indices[str(label)] for label in labels]
    scores = [float(label) for label in labels]
    bins = config.bins or len(scores).bit_length()
    return quantile_bins(scores, bins) if config.stratify == "quantiles" else width_bins(scores, bins)


def quantile_bins(scores: Sequence[float], bins: int) -> list[int]:
    """Return the bin of each score, of bins with equal numbers of rows: ⌊bins · (number of lower scores) / rows⌋.

    Equal scores are in one bin, so bins may be of different sizes, or empty.
    """
    lower: dict[float, int] = {}
    for number, score in enumerate(sorted(scores)):
        lower.setdefault(score, number)
    return [bins * lower[score] // len(scores) for score in scores]


def width_bins(scores: Sequence[float], bins: int) -> list[int]:
    """Return the bin of each score, of bins of equal width: ⌊bins · (score - lowest) / (highest - lowest)⌋.

    The highest score is in the last bin.
    """
    first, last = Fraction(min(scores, default=0.0)), Fraction(max(scores, default=0.0))
    if first == last:
        return [0] * len(scores)
    return [min(bins - 1, bins * (Fraction(score) - first) // (last - first)) for score in scores]


def check_stratify(config: LabelledConfig, task: LabelledTask) -> None:
    """Check that rows can be stratified as the section says.

    Raises:
        ConfigError: there are no folds, a column gives them, or the strata are not for this task.
    """
    where = "train.labelled.stratify"
    if config.bins < 0 or config.bins == 1:
        fix = "2 or more; 0 for 1 + log2 of the rows (Sturges)"
        raise ConfigError(f"{config.bins} bins separate no scores", where="train.labelled.bins", fix=fix)
    if not config.stratify:
        return
    if config.fold or not config.folds:
        what = "the column `fold` gives the folds" if config.fold else "there are no folds to stratify"
        raise ConfigError(what, where=where, fix="folds = 5, without `fold`")
    if config.stratify not in _STRATA[task]:
        fix = " or ".join(f'stratify = "{one}"' for one in _STRATA[task])
        raise ConfigError(f"{config.stratify} are not strata for {task}", where=where, fix=fix)


_STRATA: dict[LabelledTask, tuple[Stratify, ...]] = {"classify": ("label",), "regress": ("quantiles", "width")}
