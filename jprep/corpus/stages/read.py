"""The first stage: read the inputs as documents, normalize, split and filter them."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator
from functools import cached_property
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from jprep.corpus.config import CorpusConfig, Source, StepRef, make_step
from jprep.corpus.decontamination.findings import FINDINGS, Occurrence, write_occurrences
from jprep.corpus.decontamination.test_sets import describe_test_sets
from jprep.corpus.dedup.hashes import (
    BAND_KEYS,
    HASHES,
    RANKS,
    DocumentHashWriter,
    RankWriter,
    lines_of,
    sentences_of,
)
from jprep.corpus.dedup.near.signatures import BandKeyWriter, describe_signatures
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.input_files import InputFile, contents_by_path, refuse_changed
from jprep.corpus.processing import DocumentProcessor, measure_changed, refuse_changed_files, take_tally
from jprep.corpus.signals.columns import check_columns, describe_signals
from jprep.corpus.signals.per_line import make_signals
from jprep.corpus.stages.inputs import CutInputs
from jprep.corpus.stages.planned_shards import (
    PlannedShard,
    cached_outputs,
    digest_group,
    group_shards,
    load_shard,
    without_data,
)
from jprep.corpus.stages.sources import make_reader, task_id_prefix
from jprep.corpus.stages.task_output import HashWriter, open_task_output
from jprep.corpus.step import Filter, Normalizer, Reader, Segmenter, Signal, Splitter, Step, describe_step
from jprep.corpus.store import FORMAT
from jprep.engine.output_kinds import STATE
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.io.hashing import ContentHash
from jprep.io.inputs.content_check import expect_contents, forget_contents
from jprep.io.inputs.paths import short_names

if TYPE_CHECKING:
    from jprep.corpus.decontamination.decontaminator import Decontaminator


def needs_dedup(config: CorpusConfig) -> bool:
    """Return whether a corpus is deduplicated, which needs all documents to be read first."""
    dedup = config.dedup
    tables = (dedup.paragraphs, dedup.sentences, dedup.near)
    return dedup.documents or dedup.lines or any(table is not None for table in tables)


def source_index(part: Output) -> int:
    """Return the index of the source that a file of documents belongs to."""
    return int(Path(part.path).name[:4])


def licences(config: CorpusConfig) -> dict[str, str]:
    """Return the licence of each source, by the name of the source."""
    return {source.name: source.licence for source in config.sources}


def shard_limit(source: Source) -> dict[str, int]:
    """Return the manifest entry for a source that is read in part, or an empty dictionary."""
    return {"shards": source.shards} if source.shards else {}


class CorpusSteps:
    """The constructed steps of a recipe. They load dictionaries and tables, so each process makes its own.

    Args:
        config: the `[corpus]` section of the recipe.
        segmenter: the segmenter to use, which is `none` in the stage before deduplication.
    """

    def __init__(self, config: CorpusConfig, segmenter: StepRef) -> None:
        self._config = config
        self.segmenter: Segmenter = make_step("segmenter", segmenter)
        self.normalizers: list[Normalizer] = [make_step("normalizer", ref) for ref in config.normalizers]
        self.own_normalizers: list[list[Normalizer] | None] = [
            None
            if source.normalizers is None and not source.as_is
            else [make_step("normalizer", ref) for ref in config.normalizers_of(source)]
            for source in config.sources
        ]
        self.splitter: Splitter = make_step("splitter", config.splitter)
        self.readers: list[Reader] = [make_reader(source) for source in config.sources]
        self.signals: list[Signal] = make_signals(config.signals, config.line_signals)
        check_columns(self.signals)
        self.filters: list[list[Filter]] = [
            [make_step("filter", ref) for ref in config.filters_of(source)] for source in config.sources
        ]
        for step in (step for steps in self.filters for step in steps):
            step.use_signals(self.signals)

    def processor(self, source: int) -> DocumentProcessor:
        """Return the processor for the documents of a source."""
        as_is = self._config.sources[source].as_is
        normalizers, filters = self.normalizers_of(source), self.filters[source]
        return DocumentProcessor(normalizers, self.splitter, filters, self.signals, as_is=as_is)

    def normalizers_of(self, source: int) -> list[Normalizer]:
        """Return the normalizers of a source: its own, or else those of the corpus."""
        own = self.own_normalizers[source]
        return self.normalizers if own is None else own

    def of_source(self, source: int) -> list[tuple[str, Step]]:
        """Return the steps applied to the documents of a source, each with its kind."""
        return [
            ("reader", self.readers[source]),
            *(("normalizer", step) for step in self.normalizers_of(source)),
            ("splitter", self.splitter),
            *(("filter", step) for step in self.filters[source]),
            *(("signal", step) for step in self.signals),
            ("segmenter", self.segmenter),
        ]

    def all(self) -> list[Step]:
        """Return all steps; those that sources share are repeated."""
        used = (step for source in range(len(self.readers)) for _, step in self.of_source(source))
        return [*self.normalizers, *used]

    def close(self) -> None:
        """Close all steps."""
        for step in self.all():
            step.close()


class ReadStage(Stage):
    """Reads, normalizes, splits and filters documents; segments them too if the corpus is not deduplicated.

    Args:
        config: the `[corpus]` section of the recipe.
        inputs: the files of each source.
        folder: where to write, relative to the corpus: a path with a trailing slash, or "".
        corpus: name of the corpus.
        test_files: the files of each test set.

    Attributes:
        metadata: metadata of the Parquet schema. It contains the fingerprint of all stages: set it before the stage
            runs.
        root: directory of the corpus, where the bytes of shards are cached: set it before the stage runs.
        cut: the shards of inputs that the stage `inputs` has cut.
    """

    name = "documents"
    title = "reading"

    def __init__(
        self,
        config: CorpusConfig,
        inputs: list[list[InputFile]],
        folder: str,
        corpus: str,
        test_files: list[list[InputFile]],
    ) -> None:
        self._config, self._inputs, self._folder, self._corpus = config, inputs, folder, corpus
        self._test_files = test_files
        self.metadata: dict[str, str] = {}
        self.root, self.cut = Path(), CutInputs(Path(), [])
        self._step_hashes: list[str] = []

    @cached_property
    def _steps(self) -> CorpusSteps:
        """The steps of this process. While they are open, every byte read from an input is checked against its hash."""
        steps = CorpusSteps(self._config, "none" if needs_dedup(self._config) else self._config.segmenter)
        self._step_hashes = refuse_changed_files(steps.all(), self._step_hashes)
        expect_contents(self._contents)
        return steps

    @cached_property
    def decontaminator(self) -> Decontaminator | None:
        """What looks for the items of the test sets; None without test sets."""
        if not self._config.decontaminate:
            return None
        from jprep.corpus.decontamination.decontaminator import Decontaminator

        expect_contents(self._contents)
        return Decontaminator(self._config.decontaminate, self._test_files)

    @property
    def _contents(self) -> dict[str, ContentHash]:
        return contents_by_path(file for files in (*self._inputs, *self._test_files) for file in files)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the steps, which each process makes, and without what only `tasks` needs."""
        own = ("_steps", "decontaminator", "cut")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    @cached_property
    def _fields(self) -> dict[str, Any]:
        steps, dedup = self._steps, self._config.dedup
        return (
            {
                "format": FORMAT,
                "about": {"name": self._corpus, "licences": licences(self._config)},
                "sources": [self._source_fields(i, source) for i, source in enumerate(self._config.sources)],
                "normalizers": [describe_step(step) for step in steps.normalizers],
                "splitter": describe_step(steps.splitter),
                "segmenter": describe_step(steps.segmenter),
                "dedup": {"documents": dedup.documents, "line_min_chars": self._line_min_chars()}
                | self._dedup_fields(),
                "libraries": {"pyarrow": version("pyarrow"), "unicode": unicodedata.unidata_version},
            }
            | describe_signals(steps.signals)
            | describe_test_sets(self._config.decontaminate, self._test_files)
        )

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: inputs, steps and libraries."""
        return self._fields

    def sources_with_own_ids(self) -> set[int]:
        """Return the indexes of the sources whose ids come from the input and may not be unique."""
        return {number for number, reader in enumerate(self._steps.readers) if not reader.ids_are_positions}

    def _source_fields(self, index: int, source: Source) -> dict[str, Any]:
        return {
            "name": source.name,
            "reader": describe_step(self._steps.readers[index]),
            "files": [file.public() for file in self._inputs[index]],
            "filters": [describe_step(step) for step in self._steps.filters[index]],
        } | self._own_fields(index, source)

    def _own_fields(self, index: int, source: Source) -> dict[str, Any]:
        """Return the fields of keys that a source has or lacks."""
        own = self._steps.own_normalizers[index]
        fields = {} if own is None else {"normalizers": [describe_step(step) for step in own]}
        return fields | ({"as_is": True} if source.as_is else {}) | shard_limit(source)

    def _line_min_chars(self) -> int:
        dedup = self._config.dedup
        if frequent := dedup.sentences or dedup.paragraphs:
            return frequent.min_chars
        return max(1, dedup.line_min_chars) if dedup.lines else 0

    def total(self) -> int:
        """Return the size of all inputs in bytes; 0 if an input is a pipe or is read in part."""
        if any(source.shards for source in self._config.sources):
            return 0
        sizes = [file.size for files in self._inputs for file in files]
        return sum(sizes) if all(sizes) else 0

    def tasks(self) -> Iterator[Task]:
        """Yield one task per shard, or per group of small shards. A group counts as one for `Source.shards`."""
        expect_contents(self._contents)  # another stage may have closed its readers since the steps were made
        for index, source in enumerate(self._config.sources):
            for number, group in enumerate(islice(group_shards(self._shards(index)), source.shards or None)):
                name, digest = f"{task_id_prefix(index, source)}{number:06d}", digest_group(group)
                yield Task(name, (index, self._cache(name, group)), sum(each.shard.weight for each in group), digest)

    def _cache(self, task: str, group: list[PlannedShard]) -> list[PlannedShard]:
        """Return the shards of a task without their bytes, which are written to the disk."""
        named = [(f"{task}-{number:04d}", each) for number, each in enumerate(group)]
        return [without_data(each.shard, self.root, name) if each.shard.data else each for name, each in named]

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        """Return the cached shards that the task reads."""
        return [(output, [task.id]) for output in cached_outputs(task.payload[1])]

    def _shards(self, source: int) -> Iterator[PlannedShard]:
        """Yield all shards of a source, with a short name that is unique among its files as the hint `name`."""
        reader, files = self._steps.readers[source], self._inputs[source]
        short = short_names([file.path for file in files])
        for number, file in enumerate(files):
            cut = self.cut.shards(source, number, file)
            for planned in map(PlannedShard, reader.shards(file.path)) if cut is None else cut:
                hints = planned.shard.hints | {"name": short[file.path]}
                shard = msgspec.structs.replace(planned.shard, hints=hints)
                yield msgspec.structs.replace(planned, shard=shard)
            refuse_changed(file)

    def run(self, task: Task, root: Path) -> Result:
        """Convert the shards of a task to a file of documents, one of rejects, and one of hashes."""
        index, group = task.payload
        steps = self._steps
        reader, processor, found = steps.readers[index], steps.processor(index), list[Occurrence]()
        writers = self._hash_writers(index)
        with open_task_output(
            root, self._folder, f"{self.name}/{task.id}", steps.segmenter, self.metadata, writers
        ) as task_output:
            for planned in group:
                shard = load_shard(planned, reader, root)
                items = processor.process(reader.read(shard, self._config.sources[index].name))
                for item in self._decontaminated(items, processor.tally, found):
                    task_output.add(item)
            self._refuse_changed(index, group)
        if isinstance(ranks := writers.get(RANKS), RankWriter) and ranks.without_score:
            task_output.counts["dedup.near.without_score"] = ranks.without_score
        task_output.outputs += write_occurrences(root, f"{STATE}/{FINDINGS}/{task.id}", found)
        task_output.counts.update(processor.tally)
        if (source := self._config.sources[index]).shards:
            task_output.counts[f"source.{source.name}.bytes_read"] = task.weight
        for kind, step in steps.of_source(index):
            task_output.counts.update(take_tally(kind, step))
        return task_output.result()

    def _decontaminated(
        self, items: Iterator[Document | Reject], tally: Tally, found: list[Occurrence]
    ) -> Iterator[Document | Reject]:
        if self.decontaminator is None:
            return items
        return measure_changed(self.decontaminator.apply(items, tally, found), self._steps.signals)

    def _dedup_fields(self) -> dict[str, Any]:
        near, dedup = self._config.dedup.near, self._config.dedup
        tables = {"paragraphs": dedup.paragraphs, "sentences": dedup.sentences}
        frequent = {name: msgspec.to_builtins(table) for name, table in tables.items() if table}
        if near is None:
            return frequent
        options = {key: value for key, value in msgspec.to_builtins(near).items() if key != "score" or value}
        order = {"order": "near, exact"} if dedup.exact_needs_near else {}  # it was the opposite in 0.1.0
        return frequent | {"near": options | describe_signatures() | order}

    def _hash_writers(self, source: int) -> dict[str, HashWriter]:
        """Return what collects the hashes of one task of a source, by the name of the folder for their file."""
        dedup, writers = self._config.dedup, dict[str, HashWriter]()
        if dedup.documents or self._line_min_chars():
            line_min_chars = 0 if self._config.sources[source].as_is else self._line_min_chars()
            parts = sentences_of if dedup.sentences else lines_of
            writers[HASHES] = DocumentHashWriter(dedup.documents, line_min_chars, parts)
        if dedup.near:
            writers[BAND_KEYS] = BandKeyWriter(dedup.near)
            writers |= {} if dedup.near.keep == "first" else {RANKS: RankWriter(dedup.near.score)}
        return writers

    def _refuse_changed(self, source: int, group: list[PlannedShard]) -> None:
        """Check that the inputs of a task have not changed since they were hashed, before its outputs are committed."""
        paths = {planned.shard.path for planned in group}
        for file in self._inputs[source]:
            if file.path in paths:
                refuse_changed(file)

    def close(self) -> None:
        """Close the steps of this process."""
        decontaminator, steps = (self.__dict__.pop(name, None) for name in ("decontaminator", "_steps"))
        if steps:
            steps.close()
        if steps or decontaminator:
            forget_contents(self._contents)
