"""The parts of a mixture: documents that are mixed together, chosen by their source, kept signals or cluster size."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.config import ConfigSection
from jprep.corpus.filters.limits import SignalLimits
from jprep.errors import ConfigError
from jprep.io.safe_names import check_unique_names

_KEY = "dataset.mix.parts"


class SizeLimits(ConfigSection, frozen=True):
    """Sizes of clusters of near-duplicates. A document that is in no cluster has size 1.

    Attributes:
        min: the smallest size.
        max: the largest size; without it, any.
    """

    min: int = 1
    max: int | None = None


class MixPart(ConfigSection, frozen=True):
    """Documents of the training split for which everything holds that is given.

    Attributes:
        name: names the part in `weights` and `repeats`.
        source: only documents of this source; by default, of any.
        where: limits of signals that the corpus keeps, as in filters: `{ signal = "quality_score", min = 0.5 }`. A
            signal that does not apply to a document (NaN) counts as within them.
        cluster_size: how many documents the document's cluster of near-duplicates has, with `corpus.dedup.near`.
    """

    name: str
    source: str = ""
    where: list[SignalLimits] = []
    cluster_size: SizeLimits | None = None


def check_part_values(parts: Sequence[MixPart], where: str) -> None:
    """Check the values of parts by themselves.

    Raises:
        ConfigError: a name that is used twice or cannot name a file, or limits that make no sense.
    """
    check_unique_names([part.name for part in parts], what="part", key=_KEY, where=where)
    for part in parts:
        for limits in part.where:
            limits.check_limits(f"{where}, the part {part.name!r}")
        _check_size(part, where)


def _check_size(part: MixPart, where: str) -> None:
    size = part.cluster_size
    if size and (size.min < 1 or (size.max is not None and size.max < size.min)):
        what = f"the part {part.name!r} takes clusters of {size.min} to {size.max} documents, and there are none"
        fix = "cluster_size = { min = 2, max = 10 }; a document in no cluster has size 1"
        raise ConfigError(what, where=where, fix=fix)


def check_mix_parts(parts: Sequence[MixPart], sources: Sequence[str], held_out: Sequence[str], where: str) -> None:
    """Check parts against the sources of a corpus.

    Args:
        parts: the parts.
        sources: names of the sources.
        held_out: names of the sources that no training reads.
        where: the place, for errors.

    Raises:
        ConfigError: a part of a source that does not exist or is held out, or one that is called like a source.
    """
    for part in parts:
        if part.source and part.source not in sources:
            what = f"the part {part.name!r} is of the source {part.source!r}, which does not exist"
            raise ConfigError(what, where=where, fix=f"available sources: {', '.join(sources)}")
        if part.source in held_out:
            what = f"the part {part.name!r} is of the source {part.source!r}, which no training reads"
            raise ConfigError(what, where=where, fix="remove it from dataset.validation and dataset.test")
        if part.name in sources:
            what = f"a part of {_KEY} and a source are both called {part.name!r}"
            raise ConfigError(what, where=where, fix="give the part another name; the source has what no part takes")
