"""Open the samples of a split, as its packing says."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jprep.dataset.sampling.best_fit import open_best_fit
from jprep.dataset.sampling.sample_index import LENGTH_BITS, Samples, StreamSamples, open_sample_index
from jprep.dataset.sampling.sources import ListedBySource, SourceStreams, open_complete_by_source
from jprep.errors import ConfigError

if TYPE_CHECKING:
    from jprep.dataset.sampling.sampler import SamplerConfig, SplitData

SAMPLE_INDEX_SUFFIX = ".samples"
"""Suffix of the sample indices beside a split."""


def open_samples(source: SplitData, config: SamplerConfig, around: int) -> Samples:
    """Return the samples of a split; each has room for `around` special tokens.

    Raises:
        ConfigError: `length` leaves no room for text, or is too large for the packing.
        MachineError: the sample index cannot be written.
    """
    length, mixed = config.length - around, config.mix is not None
    if length < 1:
        what = f"a length of {config.length} leaves no room beside {around} special tokens"
        raise ConfigError(what, fix="e.g. length = 512")
    if config.packing == "stream":
        return SourceStreams(source.sources, length) if mixed else StreamSamples(len(source.tokens.tokens), length)
    if length >> LENGTH_BITS:
        fix = 'use a shorter length, or packing = "stream"'
        raise ConfigError(f"packing {config.packing!r} requires a length below {1 << LENGTH_BITS}", fix=fix)
    by_source = "-by-source" if mixed and config.packing != "line" else ""
    stem = f"{config.split}.{config.packing}{by_source}-{config.length}-{around}-{source.fingerprint}"
    path = source.folder / (stem + SAMPLE_INDEX_SUFFIX)
    if config.packing == "best_fit":
        return open_best_fit(path, source.tokens, source.separators.end, length, source.sources if mixed else ())
    if by_source:
        found = open_complete_by_source(path, source.tokens, source.sources, length)
    else:
        found = open_sample_index(path, source.tokens, config.packing, length, source.separators)
    return ListedBySource(found, source.sources) if mixed else found
