"""The stage that reads: inputs become documents, normalised, split and filtered."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import xxhash

from jprep.corpus.dedup.hashes import HashWriter
from jprep.corpus.document import Reject, Tally
from jprep.corpus.inputs import Input
from jprep.corpus.recipe import CorpusConfig, Source, StepRef, make_step, step_name
from jprep.corpus.sink import sink
from jprep.corpus.step import Reader, Segmenter, Shard, Step
from jprep.corpus.steps import Chain, describe, take_tally
from jprep.corpus.store import FORMAT
from jprep.engine.stage import Result, Stage, Task

_GROUP = 1 << 20  # bytes: smaller shards share a task, or a folder of little files would become as many little files


def deduplicates(config: CorpusConfig) -> bool:
    """Whether a corpus needs the barrier."""
    return config.dedup.documents or config.dedup.lines


def open_segmenter(ref: StepRef) -> Segmenter | None:
    """The recipe's segmenter; None where it wants none."""
    return None if step_name(ref) == "none" else make_step("segmenter", ref)


class DocumentsStage(Stage):
    """Reads, normalises, splits and filters; segments too where nothing has to be deduplicated first.

    Args:
        config: the recipe's `[corpus]`.
        inputs: each source's files.
        folder: where its outputs go, relative to the corpus, with a slash at its end, or "".
    """

    name = "documents"

    def __init__(self, config: CorpusConfig, inputs: list[list[Input]], folder: str) -> None:
        self._config, self._inputs, self._folder = config, inputs, folder
        self._segmenter_ref: StepRef = "none" if deduplicates(config) else config.segmenter
        self._opened: dict[int, tuple[Reader, Chain]] = {}
        self._segmenter: Segmenter | None = None

    def fields(self) -> dict[str, Any]:
        """Inputs, steps and libraries."""
        config = self._config
        return {
            "format": FORMAT,
            "sources": [self._source_fields(i, source) for i, source in enumerate(config.sources)],
            "normalizers": [describe("normalizer", ref) for ref in config.normalizers],
            "splitter": describe("splitter", config.splitter),
            "segmenter": describe("segmenter", self._segmenter_ref),
            "dedup": {"documents": config.dedup.documents, "line_min_chars": self._line_min_chars()},
            "libraries": {"pyarrow": version("pyarrow"), "unicode": unicodedata.unidata_version},
        }

    def _source_fields(self, index: int, source: Source) -> dict[str, Any]:
        return {
            "name": source.name,
            "reader": describe("reader", source.reader),
            "files": [file.public() for file in self._inputs[index]],
            "filters": [describe("filter", ref) for ref in self._filters(source)],
        }

    def _filters(self, source: Source) -> list[StepRef]:
        return self._config.filters if source.filters is None else source.filters

    def _line_min_chars(self) -> int:
        return max(1, self._config.dedup.line_min_chars) if self._config.dedup.lines else 0

    def total(self) -> int:
        """Bytes of all inputs on disk; 0 where one is a pipe."""
        sizes = [file.size for files in self._inputs for file in files]
        return sum(sizes) if all(sizes) else 0

    def tasks(self) -> Iterator[Task]:
        """Each shard a task; small ones together."""
        for index, source in enumerate(self._config.sources):
            reader = make_step("reader", source.reader)
            shards = (shard for file in self._inputs[index] for shard in reader.shards(file.path))
            for number, group in enumerate(_grouped(shards)):
                weight = sum(shard.weight for shard in group)
                yield Task(f"{index:02d}-{source.name}-{number:06d}", (index, group), weight, _digest(group))

    def run(self, task: Task, root: Path) -> Result:
        """Make a task's shards one file of documents, one of rejects, and one of hashes."""
        index, group = task.payload
        reader, chain = self._open(index)
        dedup = self._config.dedup
        hashes = HashWriter(dedup.documents, self._line_min_chars()) if deduplicates(self._config) else None
        with sink(root, self._folder, f"{self.name}/{task.id}", self._segmenter, hashes) as taken:
            for shard in group:
                for item in reader.read(shard, self._config.sources[index].name):
                    rejected = item if isinstance(item, Reject) else chain.judge(item)
                    if rejected:
                        taken.refuse(rejected)
                    elif not isinstance(item, Reject):
                        taken.keep(item)
        taken.counts.update(self._tallies(reader, chain))
        return taken.result()

    def _open(self, index: int) -> tuple[Reader, Chain]:
        """This process's steps for a source, made once."""
        if index not in self._opened:
            source = self._config.sources[index]
            chain = Chain(
                [make_step("normalizer", ref) for ref in self._config.normalizers],
                make_step("splitter", self._config.splitter),
                [make_step("filter", ref) for ref in self._filters(source)],
            )
            self._opened[index] = make_step("reader", source.reader), chain
            self._segmenter = self._segmenter or open_segmenter(self._segmenter_ref)
        return self._opened[index]

    def _tallies(self, reader: Reader, chain: Chain) -> Tally:
        steps: list[tuple[str, Step]] = [("reader", reader), *chain.steps()]
        steps += [("segmenter", self._segmenter)] if self._segmenter else []
        counts = Tally(chain.tally)
        chain.tally.clear()
        for kind, step in steps:
            counts.update(dict(take_tally(kind, step)))
        return counts

    def close(self) -> None:
        """Close the steps of this process."""
        for reader, chain in self._opened.values():
            for step in [reader, *(step for _, step in chain.steps())]:
                step.close()
        if self._segmenter:
            self._segmenter.close()
        self._opened, self._segmenter = {}, None


def _grouped(shards: Iterator[Shard]) -> Iterator[list[Shard]]:
    group: list[Shard] = []
    for shard in shards:
        if group and sum(s.weight for s in group) + shard.weight > _GROUP:
            yield group
            group = []
        group.append(shard)
    if group:
        yield group


def _digest(group: list[Shard]) -> str:
    digest = xxhash.xxh3_128()
    for shard in group:
        digest.update(f"{shard.index}:{shard.start}:{shard.end}:".encode())
        digest.update(shard.data or b"")
    return digest.hexdigest()
