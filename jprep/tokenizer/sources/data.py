"""Training data from several sources."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.corpus.api import Corpus
from jprep.corpus.config import VERSION, CorpusConfig, CorpusRecipe, DedupConfig, Source
from jprep.engine.runner import Executor, ProgressReporter
from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting import UnitCounts, count_sources
from jprep.tokenizer.normalizers import for_raw_text
from jprep.tokenizer.sources.config import TokenizerSource
from jprep.tokenizer.training_data import CorpusTrainingData, InputTrainingData, TrainingData, normalizers_by_source

FOLDER = "sources"
"""Directory of the corpora that are built, by name of their source."""


def training_data(
    config: TokenizerConfig, name: str, own: Callable[[], Corpus], cache: Path, held_out: Sequence[str] = ()
) -> TrainingData:
    """Return the training data of a recipe: its sources, or else its corpus.

    Args:
        config: the `[tokenizer]` section.
        name: name of the recipe.
        own: returns the recipe's own corpus; called if it is needed.
        cache: a file that caches the hashes of inputs.
        held_out: names of sources of validation and test splits in the recipe's own corpus.

    Raises:
        ConfigError: see `SourcesTrainingData`.
    """
    if config.source_list:
        return SourcesTrainingData(name, config.source_list, own, cache, held_out)
    return CorpusTrainingData(own(), held_out)


class SourcePart(NamedTuple):
    """A source with its data.

    Attributes:
        source: the table of the recipe.
        data: the corpus, or the inputs of one.
    """

    source: TokenizerSource
    data: CorpusTrainingData | InputTrainingData


class SourcesTrainingData(TrainingData):
    """Several sources, whose counts are multiplied so that their weights hold.

    Args:
        name: name of the recipe.
        sources: the sources.
        own: returns the recipe's own corpus; called if a source is in it.
        cache: a file that caches the hashes of inputs.
        held_out: names of sources of validation and test splits in the recipe's own corpus.

    Raises:
        ConfigError: a corpus does not exist, or has no such source.
    """

    splitter = segmenter = None

    def __init__(
        self,
        name: str,
        sources: Sequence[TokenizerSource],
        own: Callable[[], Corpus],
        cache: Path,
        held_out: Sequence[str] = (),
    ) -> None:
        self.name = name
        self._parts = [SourcePart(source, _data_of(source, own, cache, held_out)) for source in sources]
        self.sources = [about | {"weight": source.weight} for source, data in self._parts for about in data.sources]

    def inspect(self) -> None:
        """Hash the inputs, and choose the normalizers of the tokenizer: those that all sources have."""
        found = []
        for _, data in self._parts:
            data.inspect()
            found += [for_raw_text(each) for each in normalizers_by_source(data.made_from, data.held_out)]
        self.same_normalizers = all(each == found[0] for each in found)
        self.normalizers = found[0] if self.same_normalizers else []

    def fields(self) -> dict[str, Any]:
        """Return what each source is counted from, and its weight."""
        return {"sources": [_fields(part) for part in self._parts]}

    def count(self, config: TokenizerConfig, state: Path, executor: Executor, progress: ProgressReporter) -> UnitCounts:
        """Build the corpora of the sources that need one, then count all units."""
        from jprep.tokenizer.counting.sources import CountedSource

        counted = []
        for source, data in self._parts:
            corpus = data.prepare(state / FOLDER / source.name, executor, progress)
            raw = source.segmenter == "none" or not corpus.manifest.totals.get("words")
            units = msgspec.structs.replace(config, boundaries="none") if raw else config
            counted.append(CountedSource(source.name, source.share, corpus, data.held_out, units))
        return count_sources(counted, config, state, executor, progress)

    def check_comparable(self, folder: Path) -> None:
        """Refuse pipes, which can be read only once."""
        for part in self._parts:
            part.data.check_comparable(folder)

    @property
    def parts(self) -> list[SourcePart]:
        """The sources, each with its data."""
        return self._parts


def _data_of(
    source: TokenizerSource, own: Callable[[], Corpus], cache: Path, held_out: Sequence[str]
) -> CorpusTrainingData | InputTrainingData:
    if source.paths:
        return InputTrainingData(_recipe(source), cache)
    corpus = Corpus(source.corpus) if source.corpus else own()
    present, chosen = [each["name"] for each in corpus.manifest.sources], source.names_in_corpus
    if unknown := [name for name in chosen if name not in present]:
        what = f"the corpus has no source {unknown[0]!r} (tokenizer.sources, {source.name})"
        fix = f"name one of {', '.join(present)} in `corpus_sources`, or give `paths` or `corpus`"
        raise ConfigError(what, where=str(corpus.folder), fix=fix)
    if held := [name for name in chosen if not source.corpus and name in held_out]:
        what = f"the source {held[0]!r} is held out for validation or test (tokenizer.sources, {source.name})"
        raise ConfigError(what, where=str(corpus.folder), fix="train on other sources")
    return CorpusTrainingData(corpus, [name for name in present if chosen and name not in chosen])


def _recipe(source: TokenizerSource) -> CorpusRecipe:
    """Return the recipe of a source's temporary corpus, in which repeated texts count repeatedly."""
    read = Source(
        name=source.name,
        paths=source.paths,
        reader=source.reader,
        licence=source.licence,
        homepage=source.homepage,
        as_is=source.as_is,
    )
    corpus = CorpusConfig(
        sources=[read],
        normalizers=source.normalizers,
        dedup=DedupConfig(documents=False),
        segmenter=source.segmenter or "none",
    )
    return CorpusRecipe(name=source.name, version=VERSION, corpus=corpus)


def _fields(part: SourcePart) -> dict[str, Any]:
    source = part.source
    raw = {"segmenter": "none"} if source.segmenter == "none" and not source.paths else {}
    return {"name": source.name, "weight": str(source.share), **raw, **part.data.fields()}
