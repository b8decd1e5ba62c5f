"""The sources of a split as ranges of its tokens, and the samples of each of them. `docs/sampling.md` has the rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from jprep.dataset.manifest import PACK_AGAIN, TRAIN, DatasetManifest
from jprep.dataset.mix import MixConfig, packed_parts
from jprep.dataset.sampling.sample_index import (
    LENGTH_BITS,
    Integers,
    Ranges,
    RowPieces,
    SampleIndex,
    SplitTokens,
    StreamSamples,
    complete_samples,
    write_sample_index,
)
from jprep.engine.fingerprint import plain
from jprep.engine.mismatch import describe_mismatch
from jprep.errors import ConfigError, DamagedError

_DIGITS = 4  # of a source's number, with which the names of its shards begin


class SourceRange(NamedTuple):
    """The tokens of a split that are from one source, or in one part of a mixture.

    Attributes:
        name: the source or part.
        start, stop: its first token, and the one after its last.
    """

    name: str
    start: int
    stop: int


@runtime_checkable
class SourceSamples(Protocol):
    """All samples of a split, none of which has tokens of two sources; those of a source are consecutive."""

    firsts: list[int]
    """First sample of each source, and the number of all samples, (sources + 1,)."""

    def __len__(self) -> int: ...

    def pieces(self, indices: Integers) -> RowPieces:
        """Return the pieces of the rows of some samples."""


def source_ranges(
    dataset: DatasetManifest, split: str, unit: Literal["tokens", "documents"] = "tokens"
) -> tuple[SourceRange, ...]:
    """Return what a mixture mixes, with its tokens or documents in a split, in order; some may have none.

    That is the sources; of a training split that was packed in the parts of a mixture, these parts.

    Raises:
        DamagedError: the manifest names a shard of no source, or the shards are not in the order of the sources.
    """
    if dataset.mix_parts and split == TRAIN:
        ends = np.cumsum([0, *(getattr(part, unit) for part in dataset.mix_parts)]).tolist()
        return tuple(map(SourceRange, (part.name for part in dataset.mix_parts), ends[:-1], ends[1:]))
    names = [str(source["name"]) for source in dataset.sources]
    found, last = [0] * (len(names) + 1), 0
    for part in (each for each in dataset.parts if not each.mix_part):
        number = source_number(part.path, names)
        if number < last:
            raise DamagedError("the shards are not in the order of the sources", where="dataset.json", fix=PACK_AGAIN)
        found[number + 1 :] = [getattr(part, unit)[split][1]] * (len(names) - number)
        last = number
    return tuple(map(SourceRange, names, found[:-1], found[1:]))


def source_number(path: str, names: list[str]) -> int:
    """Return the number of the source that a shard of the corpus is from; its name begins with it and the source's."""
    name = Path(path).name
    number = int(name[:_DIGITS]) if name[:_DIGITS].isdecimal() else len(names)
    if number >= len(names) or not name[_DIGITS:].startswith(f"-{names[number]}-"):
        raise DamagedError(f"the shard {name!r} belongs to no source", where="dataset.json", fix=PACK_AGAIN)
    return number


def check_packed_parts(mix: MixConfig, dataset: DatasetManifest, folder: Path) -> None:
    """Check that a dataset was packed in the parts of a mixture.

    Args:
        mix: the mixture.
        dataset: the manifest of the dataset.
        folder: its directory, for the error.

    Raises:
        ConfigError: it has other parts, or none.
    """
    ours = {"parts": plain(packed_parts(mix, [str(source["name"]) for source in dataset.sources]))}
    theirs = {"parts": dataset.made_from.get("mix", {}).get("parts", [])}
    if found := describe_mismatch({"dataset": {"mix": ours}}, {"dataset": {"mix": theirs}}):
        what = f"the dataset was packed in different parts than dataset.mix has now ({found[0]})"
        fix = "pack it again with --restart, or give dataset.mix the parts and sources that it had"
        raise ConfigError(what, where=str(folder), fix=fix)


class SourceStreams(Ranges):
    """Samples of `length` consecutive tokens of one source; each source's last one has the remaining tokens.

    Args:
        ranges: the sources.
        length: tokens per sample.
    """

    def __init__(self, ranges: Sequence[SourceRange], length: int) -> None:
        self._each = [StreamSamples(one.stop - one.start, length) for one in ranges]
        self._starts = np.array([one.start for one in ranges], np.int64)
        self._stops = np.array([one.stop for one in ranges], np.int64)
        self._length = length
        self._bounds = np.cumsum([0, *map(len, self._each)])
        self.firsts: list[int] = self._bounds.tolist()

    def __len__(self) -> int:
        return self.firsts[-1]

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the first token and the number of tokens of some samples, each (rows,)."""
        source = np.searchsorted(self._bounds, indices, side="right") - 1
        starts = self._starts[source] + (indices - self._bounds[source]) * self._length
        return starts, np.minimum(self._length, self._stops[source] - starts)


class ListedBySource(Ranges):
    """Listed samples, divided by source.

    Args:
        index: samples in the order of their tokens, none of which has tokens of two sources.
        ranges: the sources.
    """

    def __init__(self, index: SampleIndex, ranges: Sequence[SourceRange]) -> None:
        self._index = index
        self.firsts = [*(index.first_from(one.start) for one in ranges), len(index)]

    def __len__(self) -> int:
        return len(self._index)

    def spans(self, indices: Integers) -> tuple[Integers, Integers]:
        """Return the first token and the number of tokens of some samples, each (rows,)."""
        return self._index.spans(indices)


class _View:
    """The tokens of one source, numbered from 0."""

    def __init__(self, split: SplitTokens, source: SourceRange) -> None:
        self._split, self._start = split, source.start
        self.tokens: npt.NDArray[Any] = split.tokens[source.start : source.stop]

    def marks(self, start: int, stop: int) -> npt.NDArray[np.uint8]:
        return self._split.marks(start + self._start, stop + self._start)

    def release(self) -> None:
        self._split.release()


def open_complete_by_source(path: Path, split: SplitTokens, ranges: Sequence[SourceRange], length: int) -> SampleIndex:
    """Open the index of the samples of whole sentences that begin anew with each source; write it if it is missing.

    Args:
        path: the index file; its name must contain everything that the samples depend on.
        split: the split's tokens.
        ranges: the sources.
        length: maximum tokens per sample.

    Raises:
        MachineError: the disk is full or not writable.
    """

    def find() -> Iterator[Integers]:
        for source in ranges:
            offset = source.start << LENGTH_BITS
            yield from (entries + offset for entries in complete_samples(_View(split, source), length))

    return write_sample_index(path, find)
