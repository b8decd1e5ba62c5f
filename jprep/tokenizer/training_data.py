"""What a tokenizer is trained on: a corpus, inputs that are made one first, or word counts that a user has."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from jprep.corpus.api import Corpus
from jprep.corpus.build import build, expected_made_from
from jprep.corpus.config import Recipe
from jprep.corpus.store import MANIFEST, segmenter_of
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import Executor, ProgressReporter
from jprep.errors import ConfigError, DamagedError, InputError, MismatchError
from jprep.io.inputs.content_check import expect_contents, forget_contents, hash_content
from jprep.io.inputs.streams import open_raw
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts, count_corpus, read_counts

_log = logging.getLogger(__name__)


class TrainingData(ABC):
    """What a tokenizer is trained on.

    Attributes:
        name: the corpus's or the file's.
        corpus: the finished corpus that it is, if it is one.
        normalizers: the descriptions of the normalisers that its text went through.
        splitter: the description of the splitter that found its sentences; None where none is known.
        segmenter: the description of the segmenter that found its words; None where there was none.
        sources: name, licence and homepage of each source.
    """

    name: str
    corpus: Corpus | None = None
    normalizers: list[dict[str, Any]]
    splitter: dict[str, Any] | None
    segmenter: dict[str, Any] | None
    sources: list[dict[str, Any]]

    def look(self) -> None:  # noqa: B027 - most know all about themselves
        """Find out what it is. Called before all else, once the output's folder is known to be ours, and locked."""

    @abstractmethod
    def fields(self) -> dict[str, Any]:
        """What it is, for the tokenizer's fingerprint."""

    @abstractmethod
    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Count its units; resumed where an earlier run was stopped."""

    def refuse_unknowable(self, folder: Path) -> None:  # noqa: B027 - most can be held against what was made of them
        """Raise MismatchError if it cannot be said whether a finished tokenizer was made of this."""


class CorpusTrainingData(TrainingData):
    """A finished corpus."""

    def __init__(self, corpus: Corpus) -> None:
        self._corpus = self.corpus = corpus
        self.name, made_from = corpus.manifest.name, corpus.manifest.made_from
        self.normalizers, self.splitter, self.segmenter = _steps(made_from)
        self.sources = [_about(source) for source in corpus.manifest.sources]

    def fields(self) -> dict[str, Any]:
        """The corpus's fingerprint, and its files' hashes: a pipe's content is in them only."""
        files = [part.sha256 for part in self._corpus.manifest.parts]
        return {"corpus": self._corpus.manifest.fingerprint, "files": fingerprint({"sha256": files})}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Count the corpus's units."""
        return count_corpus(self._corpus, config, state, executor, progress)


class InputTrainingData(TrainingData):
    """Inputs that a recipe makes a corpus of, for the time of the training.

    Args:
        recipe: how.
        cache: a file that remembers the inputs' hashes.
    """

    def __init__(self, recipe: Recipe, cache: Path) -> None:
        self._recipe, self._cache, self.name = recipe, cache, recipe.name
        self.sources = [
            {"name": source.name, "licence": source.licence, "homepage": source.homepage}
            for source in recipe.corpus.sources
        ]

    def look(self) -> None:
        """Hash the inputs."""
        self._made_from = expected_made_from(self._recipe, self._cache)
        self.normalizers, self.splitter, self.segmenter = _steps(self._made_from)

    def fields(self) -> dict[str, Any]:
        """The fingerprint of the corpus that is made."""
        return {"corpus": fingerprint(self._made_from)}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Build the corpus, then count its units."""
        corpus = self._build(state / "corpus", executor, progress)
        if corpus.manifest.fingerprint != fingerprint(self._made_from):
            fix = "run the same command again with --restart"
            raise InputError("an input has changed since the training hashed it", where=self.name, fix=fix)
        return count_corpus(corpus, config, state, executor, progress)

    def _build(self, folder: Path, executor: Executor, progress: ProgressReporter) -> Corpus:
        """Build the corpus, or build it again if an earlier run finished it and it is damaged."""
        finished = (folder / MANIFEST).exists()
        # A finished corpus cannot be held against a pipe; built again, its parts are held against what was counted.
        again = self._is_piped() and finished
        try:
            build(self._recipe, folder, executor, progress, restart=again)
        except DamagedError as error:
            if not finished or again:
                raise
            _log.warning("%s (%s): the corpus of this training is built again", error.where, error.what)
            build(self._recipe, folder, executor, progress, restart=True)
        return Corpus(folder)

    def _is_piped(self) -> bool:
        files = [file for source in self._made_from["documents"]["sources"] for file in source["files"]]
        return not all(file["sha256"] for file in files)

    def refuse_unknowable(self, folder: Path) -> None:
        """A pipe can be read only once."""
        if self._is_piped():
            fix = "give another -o, or --restart to train it again"
            raise MismatchError("a finished tokenizer cannot be held against a pipe", where=str(folder), fix=fix)


class WordCountTrainingData(TrainingData):
    """A file of `word<TAB>count` lines."""

    normalizers: list[dict[str, Any]] = []
    splitter = segmenter = None
    sources: list[dict[str, Any]] = []

    def __init__(self, path: Path) -> None:
        self._path, self.name = path, path.stem

    def fields(self) -> dict[str, Any]:
        """The file's hash."""
        if not self._path.is_file():
            fix = "give a file's path; it is read twice, so that a pipe will not do"
            raise ConfigError("there is no such file of word counts", where=str(self._path), fix=fix)
        with open_raw(str(self._path)) as file:
            self._content = hash_content(file)
        return {"counts": self._content.sha256}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Add the file's counts up; what is read is compared with what was hashed."""
        expected = {str(self._path): self._content}
        expect_contents(expected)
        try:
            return read_counts(self._path, config, state)
        finally:
            forget_contents(expected)


StepDescription = dict[str, Any]


def _steps(made_from: dict[str, Any]) -> tuple[list[StepDescription], StepDescription, StepDescription | None]:
    documents = made_from["documents"]
    return documents["normalizers"], documents["splitter"], segmenter_of(made_from)


def _about(source: dict[str, Any]) -> dict[str, Any]:
    return {key: source[key] for key in ("name", "licence", "homepage")}
