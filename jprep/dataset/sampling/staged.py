"""Batches of a training whose rows have another length in each of its stages. `docs/sampling.md` has the rules."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

import msgspec

from jprep.dataset.mix import MixConfig
from jprep.dataset.sampling.config import LengthStage
from jprep.dataset.sampling.mixed_order import SourceUse
from jprep.dataset.sampling.sampler import Batch, SamplerConfig, TextSampler
from jprep.random.counter_bits import key


class StagedSampler:
    """Batches by step, from a sampler of each stage.

    Args:
        stages: the stages in order, without the last one, which has no end.
        config: the config of the last stage's sampler, but for its seed and its mixture.
        make: makes a sampler from a config.

    Attributes:
        samples: number of rows of an epoch of the last stage.
    """

    def __init__(
        self, stages: Sequence[LengthStage], config: SamplerConfig, make: Callable[[SamplerConfig], TextSampler]
    ) -> None:
        self._begins = [0, *(stage.until_step for stage in stages)]
        lengths = [*(stage.length for stage in stages), config.length]
        configs = [
            _stage_config(config, *each) for each in zip(range(len(lengths)), self._begins, lengths, strict=True)
        ]
        self._samplers, self._batch = [make(each) for each in configs], config.batch
        self.samples = self._samplers[-1].samples

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Return a rank's rows of a step's global batch; see `TextSampler.batch`."""
        number = max(0, bisect_right(self._begins, step) - 1)
        return self._samplers[number].batch(step - self._begins[number], rank, world)

    def use(self, rows: int) -> list[SourceUse]:
        """Return what the first rows of a training take of each source of its mixture, in all stages together."""
        found: list[list[SourceUse]] = []
        for begin, end, sampler in zip(self._begins, [*self._begins[1:], None], self._samplers, strict=True):
            left = rows - begin * self._batch
            if sampler.mixed and left > 0:
                found.append(sampler.mixed.use(left if end is None else min(left, (end - begin) * self._batch)))
        parts = zip(*found, strict=True)
        return [
            SourceUse(each[0].name, sum(one.rows for one in each), sum(one.epochs for one in each)) for each in parts
        ]


def _stage_config(config: SamplerConfig, number: int, begin: int, length: int) -> SamplerConfig:
    """Return the config of a stage, whose rows are counted from its first step, in an order of its own."""
    seed = int(key(config.seed, "stage", number)[0]) >> 1 if number else config.seed
    mix = _later_mix(config.mix, begin) if config.mix else None
    return msgspec.structs.replace(config, length=length, seed=seed, mix=mix)


def _later_mix(mix: MixConfig, begin: int) -> MixConfig:
    """Return a mixture as it is from a step on."""
    stages = [
        msgspec.structs.replace(stage, until_step=stage.until_step - begin)
        for stage in mix.stages
        if stage.until_step > begin
    ]
    return msgspec.structs.replace(mix, stages=stages)
