"""Export for Megatron-LM's blended data set: the training split by source or part, and the lists of weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from jprep.dataset.exports.base import ExportedSplit, ExportFormat, ExportJob
from jprep.dataset.exports.row_reader import RowReader
from jprep.dataset.indexed.split import BIN, IDX, write_index
from jprep.dataset.manifest import TEST, TRAIN, VALIDATION
from jprep.dataset.mix import WHERE, MixConfig, Phase, check_known, describe_kind, phases
from jprep.dataset.sampling.sources import check_packed_parts, source_ranges
from jprep.engine.stage import Output
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path, write_atomic

BLEND, SPLITS_JSON = "blend.txt", "splits.json"

_WHOLE = {VALIDATION: "valid-all", TEST: "test-all"}
"""Names of the files of splits that are not mixed."""


class _Source(NamedTuple):
    """A source of the training split, or a part of a mixture.

    Attributes:
        name: the source or part.
        file: name of its files without suffix.
        first, last: its first document, and the one after its last.
        tokens: number of tokens.
    """

    name: str
    file: str
    first: int
    last: int
    tokens: int


def check(job: ExportJob) -> None:
    """Check that the mixture fits the dataset, and that Megatron-LM can read the lists; see `ExportFormat.check`."""
    sources, prefix = _sources(job), job.options.prefix or ""
    for text, what in [(prefix, "the prefix"), *((source.file, "the name of a source or part") for source in sources)]:
        if any(map(str.isspace, text)):
            fix = "use a name without spaces"
            raise ConfigError(f"{what} has spaces, at which Megatron-LM divides its lists: {text!r}", fix=fix)
    if mix := job.options.mix:
        check_packed_parts(mix, job.dataset, job.folder)
        ranges = source_ranges(job.dataset, TRAIN)
        empty = [one.name for one in ranges if one.start == one.stop]
        check_known(mix, [one.name for one in ranges], WHERE, optional=empty)
        for phase in phases(mix):
            if missing := [name for name in empty if name in phase.shares]:
                what = f"the {describe_kind(mix, missing[0])} {missing[0]!r} has no token in the train split"
                raise ConfigError(what, where=WHERE, fix=f"{missing[0]} = 0 leaves it out")


def write(job: ExportJob) -> tuple[list[ExportedSplit], list[Path]]:
    """Write the files of each source and the lists; see `ExportFormat.write`."""
    job.begin()
    sources, found = _sources(job), []
    for rows in job.splits():
        whole = _Source("", _WHOLE.get(rows.split.name, ""), 0, len(rows), rows.tokens)
        each = sources if rows.split.name == TRAIN else [whole]
        files = [file for source in each for file in _write_source(job, rows, source)]
        found.append(ExportedSplit(rows.split.name, len(rows), rows.tokens, 0, files))
    return found, _write_lists(job, sources, [split.name for split in found])


def _sources(job: ExportJob) -> list[_Source]:
    """Return the sources that have documents in the training split."""
    documents, tokens = (source_ranges(job.dataset, TRAIN, unit) for unit in ("documents", "tokens"))
    return [
        _Source(one.name, f"train-{number:04d}-{one.name}", one.start, one.stop, its.stop - its.start)
        for number, (one, its) in enumerate(zip(documents, tokens, strict=True))
        if one.start < one.stop
    ]


def _write_source(job: ExportJob, rows: RowReader, source: _Source) -> list[Output]:
    """Write `.bin` and `.idx` of some documents of a split."""
    data, index = job.out / (source.file + BIN), job.out / (source.file + IDX)
    with atomic_path(data) as temporary, temporary.open("wb") as file:
        for block in rows.blocks(source.first, source.last):
            file.write(block.tokens.data)
            job.done(block)
    count = source.last - source.first
    with atomic_path(index) as temporary, temporary.open("wb") as file:
        write_index(file, job.dataset.dtype, count, lambda: rows.lengths(source.first, source.last))
    return [job.output(data, count), job.output(index, count)]


def _write_lists(job: ExportJob, sources: Sequence[_Source], splits: Sequence[str]) -> list[Path]:
    mix = job.options.mix or MixConfig(repeats={source.name: 1 for source in sources})
    *stages, last = ([*_weighted(job, sources, phase)] for phase in phases(mix))
    paths = [_list(job.out / f"blend-stage-{number}.txt", pairs) for number, pairs in enumerate(stages)]
    whole = {split: [_place(job, file)] if split in splits else None for split, file in _WHOLE.items()}
    train = [part for pair in last for part in pair]
    by_split = {"train": train, "valid": whole[VALIDATION], "test": whole[TEST]}
    write_atomic(job.out / SPLITS_JSON, msgspec.json.format(msgspec.json.encode(by_split), indent=2))
    return [_list(job.out / BLEND, last), *paths, job.out / SPLITS_JSON]


def _weighted(job: ExportJob, sources: Sequence[_Source], phase: Phase) -> Iterator[tuple[str, str]]:
    """Yield weight and prefix of each source of a phase; with repeats, weights are the tokens seen."""
    for source in sources:
        if share := phase.shares.get(source.name):
            yield repr(float(share * source.tokens if phase.kind == "repeats" else share)), _place(job, source.file)


def _place(job: ExportJob, file: str) -> str:
    return f"{job.options.prefix.rstrip('/')}/{file}" if job.options.prefix else file


def _list(path: Path, pairs: Sequence[tuple[str, str]]) -> Path:
    write_atomic(path, "".join(f"{weight} {place}\n" for weight, place in pairs).encode())
    return path


FORMAT = ExportFormat(write, ("mix", "prefix"), check)
