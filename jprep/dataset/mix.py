"""The recipe's `[dataset.mix]`: how often a training sees each source or part, from step to step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, NamedTuple

from jprep.config import ConfigSection
from jprep.dataset.mix_parts import MixPart, check_mix_parts, check_part_values
from jprep.engine.fingerprint import plain
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
    """How the sources of a dataset, or parts of them, are mixed in training: `weights` or `repeats` names each of them.

    Attributes:
        weights: source or part → its share of the rows; only their ratios matter. 0 leaves it out.
        repeats: source or part → how often its rows occur in one epoch of the mixture, e.g. 4 or 0.5; 0 leaves it out.
        stages: stages before that, each with its own shares: a warm-up, a main phase. `weights` or `repeats` above are
            for the steps after the last stage.
        parts: documents that the tables above name like a source. The first part that takes a document has it; after
            the parts, a source that is named has its other documents.
    """

    weights: dict[str, float] = {}
    repeats: dict[str, float] = {}
    stages: list[MixStage] = []
    parts: list[MixPart] = []


class Phase(NamedTuple):
    """A stage of the mixture, or what follows the last one: the shares of the sources over some steps.

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
    """Return all names in the tables of a mixture, in order of their first mention."""
    tables = [table for one in _tables(mix) for table in (one.weights, one.repeats)]
    return list(dict.fromkeys(name for table in tables for name in table))


def check_mix(mix: MixConfig, where: str = WHERE) -> None:
    """Check the values of the section by themselves; whether its sources exist depends on the dataset.

    Raises:
        ConfigError: neither or both of weights and repeats, a number out of its range, or stages out of order.
    """
    check_part_values(mix.parts, where)
    for number, table in enumerate(_tables(mix)):
        _check_shares(f"dataset.mix.stages[{number - 1}]" if number else "dataset.mix", table, where)
    ends = [0, *(stage.until_step for stage in mix.stages)]
    for number, (before, end) in enumerate(pairwise(ends)):
        if end <= before:
            what = f"stage {number} of dataset.mix ends at step {end:,}, but it begins at step {before:,}"
            raise ConfigError(what, where=where, fix=f"until_step = {before + 1} or more; stages are in order of time")


def check_known(mix: MixConfig, known: Iterable[str], where: str, *, optional: Iterable[str] = ()) -> None:
    """Check that a mixture names what exists, and each table all of it.

    Args:
        mix: the mixture.
        known: names of the sources or parts, in order.
        where: the place, for errors.
        optional: names that need not be named.

    Raises:
        ConfigError: a name that does not exist, or one that is not named.
    """
    known, spare = list(known), set(optional)
    kind = "source or part" if mix.parts else "source"
    for name in named_sources(mix):
        if name not in known:
            fix = f"the {kind.replace(' or ', 's and ')}s: {', '.join(known)}"
            raise ConfigError(f"dataset.mix names the {kind} {name!r}, which does not exist", where=where, fix=fix)
    for table in _tables(mix):
        shares = table.weights or table.repeats
        if missing := [name for name in known if name not in shares and name not in spare]:
            what = f"dataset.mix does not say how much of {', '.join(missing)} to use"
            raise ConfigError(what, where=where, fix=f"name every {kind}; {missing[0]} = 0 leaves it out")


def check_sources(mix: MixConfig, sources: Iterable[str], where: str, *, held_out: Iterable[str] = ()) -> None:
    """Check a mixture against the sources of a corpus, before anything is packed.

    Args:
        mix: the mixture.
        sources: names of the sources, in order.
        where: the place, for errors.
        held_out: names of the sources that no training reads.

    Raises:
        ConfigError: a source that does not exist, or one that is neither named nor divided into parts.
    """
    sources, held = list(sources), list(held_out)
    check_mix_parts(mix.parts, sources, held, where)
    whole = any(not part.source for part in mix.parts)
    divided = {*sources} if whole else {part.source for part in mix.parts}
    named = set(named_sources(mix))
    optional = [name for name in sources if name in held or (name in divided and name not in named)]
    check_known(mix, [*(part.name for part in mix.parts), *sources], where, optional=optional)


def packed_parts(mix: MixConfig | None, sources: Iterable[str]) -> list[MixPart]:
    """Return the parts that a training split is divided into, in order; none if the mixture has no parts.

    Behind the mixture's own parts, each source that it names is a part with its other documents.

    Args:
        mix: the mixture.
        sources: names of the sources of the corpus, in order.
    """
    if mix is None or not mix.parts:
        return []
    named = set(named_sources(mix))
    return [*mix.parts, *(MixPart(name=name, source=name) for name in sources if name in named)]


def plain_mix(mix: MixConfig) -> dict[str, Any]:
    """Return a mixture for a fingerprint or a manifest: without a key that it does not use and that came later."""
    return {key: value for key, value in plain(mix).items() if key != "parts" or value}


def describe_kind(mix: MixConfig, name: str) -> str:
    """Return `part` or `source`, for messages about a name."""
    return "part" if any(part.name == name for part in mix.parts) else "source"


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
            what = f"{key} gives {name!r} the share {share:g}"
            raise ConfigError(what, where=where, fix=f"use a number from 0 to {_HIGHEST:g}")
    if not any(shares.values()):
        raise ConfigError(f"{key} leaves out everything", where=where, fix="give one of them a number above 0")
