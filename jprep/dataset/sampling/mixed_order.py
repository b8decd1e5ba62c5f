"""The order of rows from several sources: a pure function of the row's number. `docs/sampling.md` has the rules.

What is said of sources is true of the parts of a mixture as well.

The rows of a phase are dealt out to the sources by Webster's method, in integers: after any number of rows each source
has its share of them, rounded. Each source then goes through its own samples, epoch after epoch.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from jprep.dataset.mix import WHERE, MixConfig, Phase, check_known, describe_kind, phases
from jprep.dataset.sampling.sample_index import Integers, Samples
from jprep.dataset.sampling.sources import SourceRange, SourceSamples
from jprep.errors import ConfigError
from jprep.random.counter_bits import key
from jprep.random.permutation import permuted


def share_of_batch(batch: int, step: int, rank: int, world: int) -> tuple[int, int]:
    """Return the first row of a rank's share of a step's global batch, and the one after its last, from step 0 on.

    Raises:
        ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
    """
    if world < 1 or batch % world:
        fix = f"use a multiple of {world} as the batch size"
        raise ConfigError(f"a batch of {batch} rows cannot be divided among {world} ranks", fix=fix)
    if not 0 <= rank < world or step < 0:
        raise ConfigError(f"step {step}, rank {rank} of {world} does not exist", fix="both are counted from 0")
    share = batch // world
    return step * batch + rank * share, step * batch + (rank + 1) * share


class SourceUse(NamedTuple):
    """What some rows take of a source.

    Attributes:
        name: the source.
        rows: rows from it.
        epochs: how often its samples are seen.
    """

    name: str
    rows: int
    epochs: float


class Shares:
    """Rows dealt out to sources by Webster's method: source i has its row number n at the time (2n + 1) / weight i.

    Args:
        weights: weight of each source, at least one of them above 0.
    """

    def __init__(self, weights: Sequence[Fraction]) -> None:
        unit = math.lcm(*(weight.denominator for weight in weights))
        self._weights = [int(weight * unit) for weight in weights]
        self._sum, self._used = sum(self._weights), [i for i, weight in enumerate(self._weights) if weight]
        together = math.lcm(*(self._weights[i] for i in self._used))
        self._steps = [together // weight if weight else 0 for weight in self._weights]

    def counts(self, rows: int) -> list[int]:
        """Return how many of the first rows each source has."""
        early = 2 * rows - len(self._used)
        counts = [max(0, (weight * early + self._sum) // (2 * self._sum)) for weight in self._weights]
        for source in self._dealt(counts, rows - sum(counts)):
            counts[source] += 1
        return counts

    def sources(self, start: int, stop: int) -> list[int]:
        """Return the sources of rows `start` to before `stop`."""
        return list(self._dealt(self.counts(start), stop - start))

    def _dealt(self, counts: list[int], rows: int) -> Iterator[int]:
        """Yield the sources of the rows that follow those that the sources have."""
        due = [((2 * counts[i] + 1) * self._steps[i], i) for i in self._used]
        heapq.heapify(due)
        for _ in range(rows):
            time, source = due[0]
            heapq.heapreplace(due, (time + 2 * self._steps[source], source))
            yield source


class _PhaseShares(NamedTuple):
    """A `Phase` as rows of the run, with its shares as exact numbers.

    Attributes:
        start, stop: its first row, and the one after its last; None if it does not end.
        shares: the shares of the sources.
        before: rows of each source before it.
    """

    start: int
    stop: int | None
    shares: Shares
    before: list[int]


class MixedOrder:
    """The order of samples of several sources; takes the place of `SampleOrder`.

    Args:
        mix: the mixture.
        sources: the sources.
        samples: their samples.
        batch: rows of a global batch.
        seed: seed of the order.
        split: name of the split.

    Attributes:
        epoch_rows: rows of an epoch of the mixture: every source as often as `repeats` says; with `weights`, as many as
            the sources that take part have samples.

    Raises:
        ConfigError: the mixture names a source that does not exist or that has no sample, or leaves one out.
    """

    def __init__(
        self, mix: MixConfig, sources: Sequence[SourceRange], samples: Samples, batch: int, seed: int, split: str
    ) -> None:
        assert isinstance(samples, SourceSamples)
        self._batch, self._seed, self._split = batch, seed, split
        self._names = [one.name for one in sources]
        firsts = np.array(samples.firsts, np.int64)
        self._firsts, self._sizes = firsts[:-1], np.diff(firsts)
        empty = [name for name, size in zip(self._names, self._sizes.tolist(), strict=True) if not size]
        check_known(mix, self._names, WHERE, optional=empty)
        each = phases(mix)
        for name in (name for phase in each for name in phase.shares if name in empty):
            fix = f"{name} = 0 leaves it out"
            what = f"the {describe_kind(mix, name)} {name!r} has no row in the {split} split"
            raise ConfigError(what, where=WHERE, fix=fix)
        self.epoch_rows = self._count_epoch(each)
        self._phases = self._phase_shares(each)

    def rows(self, start: int, stop: int) -> tuple[Integers, Integers]:
        """Return epoch and sample of rows `start` to before `stop`, counted from the first row of step 0.

        The epochs are those of each row's source.
        """
        found = [
            self._places(one, max(start, one.start), stop if one.stop is None else min(stop, one.stop))
            for one in self._phases
            if one.start <= stop and (one.stop is None or start < one.stop)
        ]
        source, number = (np.concatenate([np.zeros(0, np.int64), *part]) for part in zip(*found, strict=True))
        return self._samples(source, number)

    def use(self, rows: int) -> list[SourceUse]:
        """Return what the first rows take of each source."""
        last = [one for one in self._phases if one.start <= rows][-1]
        counts = self._counts(last, rows)
        sizes = self._sizes.tolist()
        return [
            SourceUse(name, count, count / size if size else 0.0)
            for name, count, size in zip(self._names, counts, sizes, strict=True)
        ]

    def _places(self, one: _PhaseShares, start: int, stop: int) -> tuple[Integers, Integers]:
        """Return the source of each row, and its number among the rows of that source."""
        source = np.array(one.shares.sources(start - one.start, stop - one.start), np.int64)
        number = np.zeros(len(source), np.int64)
        for index, count in enumerate(self._counts(one, start)):
            own = (source == index).nonzero()[0]
            number[own] = count + np.arange(len(own))
        return source, number

    def _counts(self, one: _PhaseShares, rows: int) -> list[int]:
        """Return how many of the first rows of the run each source has; they end in this phase."""
        return [a + b for a, b in zip(one.before, one.shares.counts(rows - one.start), strict=True)]

    def _samples(self, source: Integers, number: Integers) -> tuple[Integers, Integers]:
        epochs, positions = np.divmod(number, self._sizes[source])
        indices = np.empty_like(number)
        for index in np.bincount(source).nonzero()[0].tolist():
            own = source == index
            keys = key(self._seed, self._split, index, epochs[own], "mix")
            indices[own] = permuted(positions[own], int(self._sizes[index]), keys) + self._firsts[index]
        return epochs, indices

    def _phase_shares(self, each: list[Phase]) -> list[_PhaseShares]:
        found, start, before = [], 0, [0] * len(self._names)
        for phase in each:
            stop = None if phase.until is None else phase.until * self._batch
            found.append(_PhaseShares(start, stop, Shares(self._weights(phase)), before))
            if stop is not None:
                before, start = self._counts(found[-1], stop), stop
        return found

    def _weights(self, phase: Phase) -> list[Fraction]:
        """Return the weights of the sources in rows."""
        shares = [Fraction(repr(phase.shares.get(name, 0))) for name in self._names]
        if phase.kind == "weights":
            return shares
        return [share * size for share, size in zip(shares, self._sizes.tolist(), strict=True)]

    def _count_epoch(self, each: list[Phase]) -> int:
        last = each[-1]
        if last.kind == "repeats":
            return math.ceil(sum(self._weights(last)))
        used = {name for phase in each for name in phase.shares}
        return sum(size for name, size in zip(self._names, self._sizes.tolist(), strict=True) if name in used)
