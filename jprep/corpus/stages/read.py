"""The stage that reads: inputs become documents, normalised, split and filtered."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import xxhash

from jprep.corpus.config import CorpusConfig, Source, StepRef, make_step
from jprep.corpus.dedup.hashes import HashWriter
from jprep.corpus.inputs import Input, contents_of, refuse_changed
from jprep.corpus.processing import DocumentProcessor, describe_step, take_tally
from jprep.corpus.sink import sink
from jprep.corpus.step import Filter, Normalizer, Reader, Segmenter, Shard, Splitter, Step
from jprep.corpus.store import FORMAT
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.io.inputs.content_check import ContentHash, expect_contents, forget_contents
from jprep.io.inputs.paths import short_names

_GROUP_SHARDS = 1000
_GROUP = 1 << 20  # bytes: smaller shards share a task, or a folder of little files would become as many little files


def deduplicates(config: CorpusConfig) -> bool:
    """Whether a corpus needs the barrier."""
    return config.dedup.documents or config.dedup.lines


def task_prefix(index: int, source: Source) -> str:
    """Begins the ids of a source's tasks, so that they sort in the order of the sources."""
    return f"{index:04d}-{source.name}-"


def source_number(part: Output) -> int:
    """The number of the source that a file of documents belongs to."""
    return int(Path(part.path).name[:4])


def licences(config: CorpusConfig) -> dict[str, str]:
    """The licence of each source, by the source's name."""
    return {source.name: source.licence for source in config.sources}


def shards_of(source: Source) -> dict[str, int]:
    """What a manifest says of how much of a source is read: nothing, where it is all of it."""
    return {"shards": source.shards} if source.shards else {}


class CorpusSteps:
    """A process's own steps for a recipe; made when first asked for, because they load dictionaries and tables.

    Args:
        config: the recipe's `[corpus]`.
        segmenter: the segmenter of the stage at hand.
    """

    def __init__(self, config: CorpusConfig, segmenter: StepRef) -> None:
        self._config = config
        self.segmenter: Segmenter = make_step("segmenter", segmenter)
        self.normalizers: list[Normalizer] = [make_step("normalizer", ref) for ref in config.normalizers]
        self.splitter: Splitter = make_step("splitter", config.splitter)
        self.readers: list[Reader] = [make_step("reader", source.reader) for source in config.sources]
        self.filters: list[list[Filter]] = [
            [make_step("filter", ref) for ref in config.filters_of(source)] for source in config.sources
        ]

    def chain(self, source: int) -> DocumentProcessor:
        """What the documents of a source pass."""
        return DocumentProcessor(self.normalizers, self.splitter, self.filters[source])

    def of_source(self, source: int) -> list[tuple[str, Step]]:
        """The steps that a source's documents pass, each with its kind."""
        return [
            ("reader", self.readers[source]),
            *(("normalizer", step) for step in self.normalizers),
            ("splitter", self.splitter),
            *(("filter", step) for step in self.filters[source]),
            ("segmenter", self.segmenter),
        ]

    def close(self) -> None:
        """Close all of them."""
        for source in range(len(self.readers)):
            for _, step in self.of_source(source):
                step.close()


class ReadStage(Stage):
    """Reads, normalises, splits and filters; segments too where nothing has to be deduplicated first.

    Args:
        config: the recipe's `[corpus]`.
        inputs: each source's files.
        folder: where its outputs go, relative to the corpus, with a slash at its end, or "".
        corpus: the name of the corpus.

    Attributes:
        about: metadata of the files, which needs the fingerprint of all stages; set it before the stage runs.
    """

    name = "documents"

    def __init__(self, config: CorpusConfig, inputs: list[list[Input]], folder: str, corpus: str) -> None:
        self._config, self._inputs, self._folder, self._corpus = config, inputs, folder, corpus
        self.about: dict[str, str] = {}

    @cached_property
    def _steps(self) -> CorpusSteps:
        """This process's steps; while they are open, what they read of the inputs is compared with the hashes."""
        steps = CorpusSteps(self._config, "none" if deduplicates(self._config) else self._config.segmenter)
        expect_contents(self._contents)
        return steps

    @property
    def _contents(self) -> dict[str, ContentHash]:
        return contents_of(file for files in self._inputs for file in files)

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens its own steps."""
        return {name: value for name, value in self.__dict__.items() if name != "_steps"}

    @cached_property
    def _fields(self) -> dict[str, Any]:
        steps, dedup = self._steps, self._config.dedup
        return {
            "format": FORMAT,
            "about": {"name": self._corpus, "licences": licences(self._config)},
            "sources": [self._source_fields(i, source) for i, source in enumerate(self._config.sources)],
            "normalizers": [describe_step(step) for step in steps.normalizers],
            "splitter": describe_step(steps.splitter),
            "segmenter": describe_step(steps.segmenter),
            "dedup": {"documents": dedup.documents, "line_min_chars": self._line_min_chars()},
            "libraries": {"pyarrow": version("pyarrow"), "unicode": unicodedata.unidata_version},
        }

    def fields(self) -> dict[str, Any]:
        """Inputs, steps and libraries."""
        return self._fields

    def sources_with_own_ids(self) -> set[int]:
        """The numbers of the sources whose ids come from the input, and so may not be unique."""
        return {number for number, reader in enumerate(self._steps.readers) if not reader.ids_are_places}

    def _source_fields(self, index: int, source: Source) -> dict[str, Any]:
        return {
            "name": source.name,
            "reader": describe_step(self._steps.readers[index]),
            "files": [file.public() for file in self._inputs[index]],
            "filters": [describe_step(step) for step in self._steps.filters[index]],
        } | shards_of(source)

    def _line_min_chars(self) -> int:
        return max(1, self._config.dedup.line_min_chars) if self._config.dedup.lines else 0

    def total(self) -> int:
        """Bytes of all inputs on disk; 0 where one is a pipe, or is not read to its end."""
        if any(source.shards for source in self._config.sources):
            return 0
        sizes = [file.size for files in self._inputs for file in files]
        return sum(sizes) if all(sizes) else 0

    def tasks(self) -> Iterator[Task]:
        """Each shard a task; small ones together, and as one of those that a source is cut to."""
        for index, source in enumerate(self._config.sources):
            for number, group in enumerate(islice(_grouped(self._shards(index)), source.shards or None)):
                weight = sum(shard.weight for shard in group)
                yield Task(f"{task_prefix(index, source)}{number:06d}", (index, group), weight, _digest(group))

    def _shards(self, source: int) -> Iterator[Shard]:
        """All shards of a source; each knows a short name that tells its file from the source's others."""
        reader, files = self._steps.readers[source], self._inputs[source]
        short = short_names([file.path for file in files])
        for file in files:
            for shard in reader.shards(file.path):
                yield msgspec.structs.replace(shard, hints=shard.hints | {"name": short[file.path]})
            refuse_changed(file)

    def run(self, task: Task, root: Path) -> Result:
        """Make a task's shards one file of documents, one of rejects, and one of hashes."""
        index, group = task.payload
        steps, dedup = self._steps, self._config.dedup
        reader, chain = steps.readers[index], steps.chain(index)
        hashes = HashWriter(dedup.documents, self._line_min_chars()) if deduplicates(self._config) else None
        with sink(root, self._folder, f"{self.name}/{task.id}", steps.segmenter, self.about, hashes) as taken:
            for shard in group:
                for item in chain.judge(reader.read(shard, self._config.sources[index].name)):
                    taken.take(item)
            self._refuse_changed(index, group)
        taken.counts.update(chain.tally)
        if (source := self._config.sources[index]).shards:
            taken.counts[f"source.{source.name}.bytes_read"] = task.weight
        for kind, step in steps.of_source(index):
            taken.counts.update(dict(take_tally(kind, step)))
        return taken.result()

    def _refuse_changed(self, source: int, group: list[Shard]) -> None:
        """See that a task's inputs are still what was hashed, before anything that was made of them is committed."""
        paths = {shard.path for shard in group}
        for file in self._inputs[source]:
            if file.path in paths:
                refuse_changed(file)

    def close(self) -> None:
        """Close the steps of this process."""
        if steps := self.__dict__.pop("_steps", None):
            steps.close()
            forget_contents(self._contents)


def _grouped(shards: Iterator[Shard]) -> Iterator[list[Shard]]:
    group: list[Shard] = []
    total = 0
    for shard in shards:
        # Bytes on disk, or in memory where they are more: a shard may carry what a few compressed bytes made.
        size = max(shard.weight, len(shard.data or b""))
        if group and (total + size > _GROUP or len(group) == _GROUP_SHARDS):
            yield group
            group, total = [], 0
        group.append(shard)
        total += size
    if group:
        yield group


def _digest(group: list[Shard]) -> str:
    digest = xxhash.xxh3_128()
    for shard in group:
        digest.update(f"{shard.index}:{shard.start}:{shard.end}:".encode())
        digest.update(shard.data or b"")
    return digest.hexdigest()
