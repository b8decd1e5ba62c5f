"""The recipe's `[dataset.mix]`: how often a training sees each source, from step to step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from jprep.config import ConfigSection
from jprep.errors import ConfigError

WHERE = "[dataset.mix]"

_HIGHEST = 1e9


class MixStage(ConfigSection, frozen=True):
    """A stage of the mixture with its own shares.

    Attributes:
        until_step: the step before which it ends; it begins where the stage before it ends, the first one at step 0.
        weights, repeats: as under `[dataset.mix]`; a stage's `repeats` only say how the sources relate to each other.
    """

    until_step: int
    weights: dict[str, float] = {}
    repeats: dict[str, float] = {}


class MixConfig(ConfigSection, frozen=True):
    """How the sources of a dataset are mixed in training: either `weights` or `repeats` names each of them.

    Attributes:
        weights: source → its share of the rows; only their ratios matter. 0 leaves a source out.
        repeats: source → how often its rows occur in one epoch of the mixture, e.g. 4 or 0.5; 0 leaves a source out.
        stages: stages before that, each with its own shares: a warm-up, a main phase. `weights` or `repeats` above are
            for the steps after the last stage.
    """

    weights: dict[str, float] = {}
    repeats: dict[str, float] = {}
    stages: list[MixStage] = []


class Phase(NamedTuple):
    """Shares of the sources over some steps.

    Attributes:
        until: the step before which it ends; None if it does not.
        kind: `weights` or `repeats`.
        shares: source → weight or repeats, above 0.
    """

    until: int | None
    kind: str
    shares: dict[str, float]


def phases(mix: MixConfig) -> list[Phase]:
    """Return the phases of a mixture in order; only the last one has no end."""
    return [*(_phase(stage, stage.until_step) for stage in mix.stages), _phase(mix, None)]


def named_sources(mix: MixConfig) -> list[str]:
    """Return the names of all sources that a mixture mentions, in order of their first mention."""
    tables = [table for one in _tables(mix) for table in (one.weights, one.repeats)]
    return list(dict.fromkeys(name for table in tables for name in table))


def check_mix(mix: MixConfig, where: str = WHERE) -> None:
    """Check the values of the section by themselves; whether its sources exist depends on the dataset.

    Raises:
        ConfigError: neither or both of weights and repeats, a number out of its range, or stages out of order.
    """
    for number, table in enumerate(_tables(mix)):
        _check_shares(f"dataset.mix.stages[{number - 1}]" if number else "dataset.mix", table, where)
    ends = [0, *(stage.until_step for stage in mix.stages)]
    for number, (before, end) in enumerate(pairwise(ends)):
        if end <= before:
            what = f"stage {number} of dataset.mix ends at step {end:,}, but it begins at step {before:,}"
            raise ConfigError(what, where=where, fix=f"until_step = {before + 1} or more; stages are in order of time")


def check_known(mix: MixConfig, known: Iterable[str], where: str, *, optional: Iterable[str] = ()) -> None:
    """Check that a mixture names sources that exist, and each table all of them.

    Args:
        mix: the mixture.
        known: names of the sources, in order.
        where: the place, for errors.
        optional: names of sources that need not be named, because no training reads them.

    Raises:
        ConfigError: a source that does not exist, or one that is not named.
    """
    known, spare = list(known), set(optional)
    for name in named_sources(mix):
        if name not in known:
            fix = f"the sources: {', '.join(known)}"
            raise ConfigError(f"dataset.mix names the source {name!r}, which does not exist", where=where, fix=fix)
    for table in _tables(mix):
        shares = table.weights or table.repeats
        if missing := [name for name in known if name not in shares and name not in spare]:
            what = f"dataset.mix does not say how much of {', '.join(missing)} to use"
            raise ConfigError(what, where=where, fix=f"name every source; {missing[0]} = 0 leaves it out")


def has_same_rows(mix: MixConfig, before: MixConfig, steps: int) -> bool:
    """Return whether two mixtures of the same data give the first steps the same rows."""
    return _first_steps(mix, steps) == _first_steps(before, steps)


def _tables(mix: MixConfig) -> list[MixConfig | MixStage]:
    return [mix, *mix.stages]


def _first_steps(mix: MixConfig, steps: int) -> list[Phase]:
    found = []
    for phase in phases(mix):
        until = steps if phase.until is None else min(phase.until, steps)
        found.append(phase._replace(until=until))
        if until == steps:
            break
    return found


def _phase(table: MixConfig | MixStage, until: int | None) -> Phase:
    kind, shares = ("weights", table.weights) if table.weights else ("repeats", table.repeats)
    return Phase(until, kind, {name: share for name, share in shares.items() if share})


def _check_shares(key: str, table: MixConfig | MixStage, where: str) -> None:
    if bool(table.weights) == bool(table.repeats):
        what = f"{key} has {'both' if table.weights else 'neither'} weights {'and' if table.weights else 'nor'} repeats"
        raise ConfigError(what, where=where, fix="weights = { wiki = 3, web = 1 }, or repeats = { wiki = 4, web = 1 }")
    shares = table.weights or table.repeats
    for name, share in shares.items():
        if not (math.isfinite(share) and 0 <= share <= _HIGHEST):
            what = f"{key} gives the source {name!r} the share {share:g}"
            raise ConfigError(what, where=where, fix=f"use a number from 0 to {_HIGHEST:g}")
    if not any(shares.values()):
        raise ConfigError(f"{key} leaves out every source", where=where, fix="give one of them a number above 0")
