"""The sampler of a job that trains on a dataset."""

from __future__ import annotations

from jprep.dataset.sampling.masking import Masking
from jprep.dataset.sampling.pair_sampler import PairSampler
from jprep.dataset.sampling.sampler import Sampler, SamplerConfig, SplitData
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.train.job.config import TrainConfig

TextSampler = Sampler | PairSampler
"""Batches of packed text by step: rows of running text, or sentence pairs."""


def text_sampler(
    train: TrainConfig, source: SplitData, split: str, special: SpecialIds, masking: Masking | None
) -> TextSampler:
    """Return the sampler of a split: of sentence pairs with `next_sentence`, else as `packing` says.

    Args:
        train: the recipe's section.
        source: the split.
        split: its name.
        special: the special ids of the job's samples.
        masking: masks tokens; None for `clm`.

    Raises:
        ConfigError: the split has no sample, or no sentence pairs.
        MachineError: the sample index cannot be written.
    """
    config = SamplerConfig(
        batch=train.batch,
        length=train.length,
        packing=train.packing,
        seed=train.seed,
        split=split,
        noise_keys=train.task == "rtd",
    )
    if masking and train.next_sentence:
        return PairSampler(source, config, special, masking)
    return Sampler(source, config, special, masking)
