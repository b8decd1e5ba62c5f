"""Training data of a tokenizer: a finished corpus, inputs to build a corpus from, or a file of word counts."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import CorpusRecipe
from jprep.corpus.made_from import expected_made_from
from jprep.corpus.store import MANIFEST, segmenter_of
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import Executor, ProgressReporter
from jprep.errors import ConfigError, DamagedError, InputError, MismatchError
from jprep.io.hashing import hash_content
from jprep.io.inputs.content_check import expect_contents, forget_contents
from jprep.io.inputs.streams import open_raw
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts, count_corpus, read_counts

_log = logging.getLogger(__name__)


class TrainingData(ABC):
    """Training data of a tokenizer.

    Attributes:
        name: name of the corpus or the file.
        corpus: the finished corpus, if there is one.
        normalizers: descriptions of the normalizers that were applied to the text.
        splitter: description of the sentence splitter; None if unknown.
        segmenter: description of the segmenter; None if there was none.
        sources: name, licence and homepage of each source.
        same_normalizers: whether all sources have these normalizers.
    """

    name: str
    corpus: Corpus | None = None
    normalizers: list[dict[str, Any]]
    splitter: dict[str, Any] | None
    segmenter: dict[str, Any] | None
    sources: list[dict[str, Any]]
    same_normalizers: bool = True

    def inspect(self) -> None:  # noqa: B027 - not needed by most kinds
        """Inspect the data. Called first, once the output directory has been claimed and locked."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields."""

    @abstractmethod
    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Count training units, or resume an interrupted count."""

    def check_comparable(self, folder: Path) -> None:  # noqa: B027 - most kinds can be compared
        """Raise MismatchError if the data cannot be compared with that of a finished tokenizer."""


class CorpusTrainingData(TrainingData):
    """A finished corpus, or those of its sources that are trained on.

    Args:
        corpus: the corpus.
        held_out: names of sources of validation and test splits, which are left out.

    Attributes:
        held_out: the names, sorted.
        made_from: everything that the corpus depends on.
    """

    def __init__(self, corpus: Corpus, held_out: Sequence[str] = ()) -> None:
        self._corpus = self.corpus = corpus
        self.held_out = sorted(held_out)
        self.name, self.made_from = corpus.manifest.name, corpus.manifest.made_from
        self.normalizers, self.splitter, self.segmenter = _steps(self.made_from)
        sources = corpus.manifest.sources
        self.sources = [_about(source) for source in sources if source["name"] not in self.held_out]

    def fields(self) -> dict[str, Any]:
        """Return the corpus's fingerprint and the hash of its files: the content of a pipe is only in the files."""
        files = [part.sha256 for part in self._corpus.manifest.parts]
        fields = {"corpus": self._corpus.manifest.fingerprint, "files": fingerprint({"sha256": files})}
        return fields | ({"held_out": self.held_out} if self.held_out else {})

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Count the units of the corpus."""
        return count_corpus(self._corpus, config, state, executor, progress, self.held_out)

    def prepare(self, state: Path, executor: Executor, progress: ProgressReporter) -> Corpus:
        """Return the corpus."""
        return self._corpus


class InputTrainingData(TrainingData):
    """Inputs from which a temporary corpus is built with a recipe.

    Args:
        recipe: the recipe.
        cache: a file that caches the hashes of the inputs.

    Attributes:
        recipe: the recipe.
        held_out: sources that are left out: none.
        made_from: everything that the corpus depends on; known once the inputs were inspected.
    """

    held_out: Sequence[str] = ()

    def __init__(self, recipe: CorpusRecipe, cache: Path) -> None:
        self.recipe, self._cache, self.name = recipe, cache, recipe.name
        self.sources = [
            {"name": source.name, "licence": source.licence, "homepage": source.homepage}
            for source in recipe.corpus.sources
        ]

    def inspect(self) -> None:
        """Hash the inputs."""
        self.made_from = expected_made_from(self.recipe, self._cache)
        self.normalizers, self.splitter, self.segmenter = _steps(self.made_from)

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint of the corpus to build."""
        return {"corpus": fingerprint(self.made_from)}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Build the corpus, then count its units."""
        return count_corpus(self.prepare(state, executor, progress), config, state, executor, progress)

    def prepare(self, state: Path, executor: Executor, progress: ProgressReporter) -> Corpus:
        """Build the corpus."""
        corpus = self._build(state / "corpus", executor, progress)
        if corpus.manifest.fingerprint != fingerprint(self.made_from):
            fix = "rerun the command with --restart"
            raise InputError("an input has changed since the training started", where=self.name, fix=fix)
        return corpus

    def _build(self, folder: Path, executor: Executor, progress: ProgressReporter) -> Corpus:
        """Build the corpus; rebuild it if an earlier run finished it and it is damaged."""
        finished = (folder / MANIFEST).exists()
        # A finished corpus cannot be compared with a pipe; a rebuilt one has its shards compared with what was counted.
        restart = self._is_piped() and finished
        try:
            build(self.recipe, folder, executor, progress, restart=restart)
        except DamagedError as error:
            if not finished or restart:
                raise
            _log.warning("%s (%s): rebuilding the corpus of this training", error.where, error.what)
            build(self.recipe, folder, executor, progress, restart=True)
        return Corpus(folder)

    def _is_piped(self) -> bool:
        files = [file for source in self.made_from["documents"]["sources"] for file in source["files"]]
        return not all(file["sha256"] for file in files)

    def check_comparable(self, folder: Path) -> None:
        """Refuse pipes, which can be read only once."""
        if self._is_piped():
            fix = "choose another -o, or train again with --restart"
            what, options = "cannot compare a finished tokenizer with a pipe", ("-o", "--restart")
            raise MismatchError(what, where=str(folder), fix=fix, options=options)


class WordCountTrainingData(TrainingData):
    """A file of `word<TAB>count` lines."""

    normalizers: list[dict[str, Any]] = []
    splitter = segmenter = None
    sources: list[dict[str, Any]] = []

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, path.stem

    def fields(self) -> dict[str, Any]:
        """Return the hash of the file."""
        if not self._path.is_file():
            fix = "use the path of a file; a pipe does not work, because the file is read twice"
            raise ConfigError("no such file of word counts", where=str(self._path), fix=fix)
        with open_raw(str(self._path)) as file:
            self._content = hash_content(file)
        return {"counts": self._content.sha256}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Sum the counts of the file; what is read is compared with the hash."""
        expected = {str(self._path): self._content}
        expect_contents(expected)
        try:
            return read_counts(self._path, config, state)
        finally:
            forget_contents(expected)


StepDescription = dict[str, Any]


def normalizers_by_source(made_from: dict[str, Any], held_out: Sequence[str]) -> list[list[StepDescription]]:
    """Return descriptions of the normalizers of each source of a corpus that is not held out."""
    documents = made_from["documents"]
    return [
        source.get("normalizers", documents["normalizers"])
        for source in documents["sources"]
        if source["name"] not in held_out
    ]


def _steps(made_from: dict[str, Any]) -> tuple[list[StepDescription], StepDescription, StepDescription | None]:
    documents = made_from["documents"]
    return documents["normalizers"], documents["splitter"], segmenter_of(made_from)


def _about(source: dict[str, Any]) -> dict[str, Any]:
    return {key: source[key] for key in ("name", "licence", "homepage")}
