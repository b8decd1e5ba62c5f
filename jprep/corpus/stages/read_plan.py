"""The steps that the inputs of a corpus are read with, and the fingerprint of what they give."""

from __future__ import annotations

import unicodedata
from functools import cached_property
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

import msgspec

from jprep.corpus.config import CorpusConfig, Source, StepRef, make_step
from jprep.corpus.decontamination.test_sets import describe_test_sets
from jprep.corpus.dedup.near.signatures import describe_signatures
from jprep.corpus.input_files import InputFile, contents_by_path
from jprep.corpus.processing import DocumentProcessor, refuse_changed_steps
from jprep.corpus.signals.columns import check_columns, describe_signals
from jprep.corpus.signals.per_line import make_signals
from jprep.corpus.stages.sources import make_reader
from jprep.corpus.step import Filter, Normalizer, Reader, Segmenter, Signal, Splitter, Step, describe_step
from jprep.corpus.store import FORMAT
from jprep.io.hashing import ContentHash
from jprep.io.inputs.content_check import expect_contents, forget_contents

if TYPE_CHECKING:
    from jprep.corpus.decontamination.decontaminator import Decontaminator


def needs_dedup(config: CorpusConfig) -> bool:
    """Return whether a corpus is deduplicated, which needs all documents to be read first."""
    dedup = config.dedup
    tables = (dedup.paragraphs, dedup.sentences, dedup.near)
    return dedup.documents or dedup.lines or any(table is not None for table in tables)


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


class ReadPlan:
    """What a corpus is read from, and by which steps.

    Args:
        config: the `[corpus]` section of the recipe.
        inputs: the files of each source.
        corpus: name of the corpus.
        test_files: the files of each test set.

    Attributes:
        config: see Args.
        inputs: see Args.
    """

    def __init__(
        self, config: CorpusConfig, inputs: list[list[InputFile]], corpus: str, test_files: list[list[InputFile]]
    ) -> None:
        self.config, self.inputs, self._corpus, self._test_files = config, inputs, corpus, test_files
        self._step_hashes: list[str] = []

    @cached_property
    def steps(self) -> CorpusSteps:
        """The steps of this process. While they are open, every byte read from an input is checked against its hash."""
        steps = CorpusSteps(self.config, "none" if needs_dedup(self.config) else self.config.segmenter)
        self._step_hashes = refuse_changed_steps(steps.all(), self._step_hashes)
        self.expect_inputs()
        return steps

    @cached_property
    def decontaminator(self) -> Decontaminator | None:
        """What looks for the items of the test sets; None without test sets."""
        if not self.config.decontaminate:
            return None
        from jprep.corpus.decontamination.decontaminator import Decontaminator

        self.expect_inputs()
        return Decontaminator(self.config.decontaminate, self._test_files)

    def expect_inputs(self) -> None:
        """Check from now on every byte that is read from an input against its hash."""
        expect_contents(self._contents)

    @property
    def _contents(self) -> dict[str, ContentHash]:
        return contents_by_path(file for files in (*self.inputs, *self._test_files) for file in files)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the steps, which each process makes."""
        return {name: value for name, value in self.__dict__.items() if name not in ("steps", "decontaminator")}

    @cached_property
    def fields(self) -> dict[str, Any]:
        """The fingerprint fields: inputs, steps and libraries."""
        steps, dedup = self.steps, self.config.dedup
        return (
            {
                "format": FORMAT,
                "about": {"name": self._corpus, "licences": licences(self.config)},
                "sources": [self._source_fields(i, source) for i, source in enumerate(self.config.sources)],
                "normalizers": [describe_step(step) for step in steps.normalizers],
                "splitter": describe_step(steps.splitter),
                "segmenter": describe_step(steps.segmenter),
                "dedup": {"documents": dedup.documents, "line_min_chars": self.line_min_chars} | self._dedup_fields(),
                "libraries": {"pyarrow": version("pyarrow"), "unicode": unicodedata.unidata_version},
            }
            | describe_signals(steps.signals)
            | describe_test_sets(self.config.decontaminate, self._test_files)
        )

    def sources_with_own_ids(self) -> set[int]:
        """Return the indexes of the sources whose ids come from the input and may not be unique."""
        return {number for number, reader in enumerate(self.steps.readers) if not reader.ids_are_positions}

    def _source_fields(self, index: int, source: Source) -> dict[str, Any]:
        return {
            "name": source.name,
            "reader": describe_step(self.steps.readers[index]),
            "files": [file.public() for file in self.inputs[index]],
            "filters": [describe_step(step) for step in self.steps.filters[index]],
        } | self._own_fields(index, source)

    def _own_fields(self, index: int, source: Source) -> dict[str, Any]:
        """Return the fields of keys that a source has or lacks."""
        own = self.steps.own_normalizers[index]
        fields = {} if own is None else {"normalizers": [describe_step(step) for step in own]}
        return fields | ({"as_is": True} if source.as_is else {}) | shard_limit(source)

    @property
    def line_min_chars(self) -> int:
        """Characters from which on a line, a paragraph or a sentence is deduplicated; 0 if none is."""
        dedup = self.config.dedup
        if frequent := dedup.sentences or dedup.paragraphs:
            return frequent.min_chars
        return max(1, dedup.line_min_chars) if dedup.lines else 0

    def _dedup_fields(self) -> dict[str, Any]:
        near, dedup = self.config.dedup.near, self.config.dedup
        tables = {"paragraphs": dedup.paragraphs, "sentences": dedup.sentences}
        frequent = {name: msgspec.to_builtins(table) for name, table in tables.items() if table}
        if near is None:
            return frequent
        options = {key: value for key, value in msgspec.to_builtins(near).items() if key != "score" or value}
        order = {"order": "near, exact"} if dedup.exact_needs_near else {}  # it was the opposite in 0.1.0
        return frequent | {"near": options | describe_signatures() | order}

    def close(self) -> None:
        """Close the steps of this process."""
        decontaminator, steps = (self.__dict__.pop(name, None) for name in ("decontaminator", "steps"))
        if steps:
            steps.close()
        if steps or decontaminator:
            forget_contents(self._contents)
