"""Build each arm's corpus, tokenizer and dataset by the pipeline's own steps; equal ones are built once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.compare.arms import RecipeArm
from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import VERSION, CorpusConfig, CorpusRecipe, Source
from jprep.dataset.manifest import DatasetManifest
from jprep.dataset.pack import pack
from jprep.engine.fingerprint import fingerprint
from jprep.engine.output_kinds import HASH_CACHE
from jprep.engine.runner import Executor, ProgressReporter
from jprep.errors import ConfigError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.sources.data import training_data
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.train import train as train_tokenizer

NAME = "compare"
"""The name of every corpus and run: equal ones of two recipes must not differ by it."""

TextFile = Callable[[Source], Path]
"""Returns the file of a source's training texts."""


class ArmData(NamedTuple):
    """What an arm's models are trained on.

    Attributes:
        key: hash of everything that the dataset depends on; equal for arms with the same data.
        corpus: directory of the corpus.
        tokenizer: directory of the tokenizer.
        dataset: directory of the dataset.
        manifest: the dataset's manifest.
        characters: characters of the training documents.
    """

    key: str
    corpus: Path
    tokenizer: Path
    dataset: Path
    manifest: DatasetManifest
    characters: int

    @property
    def tokens(self) -> int:
        """Tokens of the training split."""
        return next(split.tokens for split in self.manifest.splits if split.name == "train")

    @property
    def tokens_per_character(self) -> float:
        """Tokens of the training split for each character."""
        return self.tokens / self.characters

    def load_tokenizer(self) -> Tokenizer:
        """Load the tokenizer."""
        found = load_tokenizer(self.tokenizer)
        assert isinstance(found, Tokenizer)
        return found


def build_arm(
    arm: RecipeArm, work: Path, texts: TextFile, share: float, executor: Executor, progress: ProgressReporter
) -> ArmData:
    """Build an arm's corpus, tokenizer and dataset, or verify those that exist.

    Args:
        arm: the arm.
        work: the folder of all arms' data.
        texts: returns the file of a source's training texts.
        share: share of the raw documents in these files, which is part of the key.
        executor: where the tasks run.
        progress: progress callbacks.

    Raises:
        ConfigError: the arm's filters leave nothing to train on.
        JprepError: a step failed; see `jprep.pipeline.run.run`.
    """
    config = training_config(arm.corpus, texts)
    key = key_of(corpus=training_config(arm.corpus, lambda source: Path(texts(source).name)), share=share)
    build(CorpusRecipe(name=NAME, version=VERSION, corpus=config), work / "corpora" / key, executor, progress)
    corpus = Corpus(work / "corpora" / key)
    if not len(corpus):
        reasons = ", ".join(f"{reason}: {number:,}" for reason, number in dropped_documents(corpus.folder).items())
        fix = f"change the steps that drop them ({reasons or 'its sources are empty'}), then run the command again"
        raise ConfigError("the recipe leaves no document to train on", where=str(arm.path), fix=fix)
    held_out = arm.dataset.held_out
    names = key_of(corpus=key, tokenizer=arm.tokenizer, held_out=held_out)
    tokenizer = work / "tokenizers" / names
    data = training_data(arm.tokenizer, NAME, lambda: corpus, tokenizer / HASH_CACHE, held_out)
    train_tokenizer(data, arm.tokenizer, tokenizer, executor, progress)
    whole = key_of(tokenizer=names, dataset=arm.dataset)
    dataset = work / "datasets" / whole
    manifest = pack(corpus, tokenizer, arm.dataset, dataset, executor, progress)
    return ArmData(whole, corpus.folder, tokenizer, dataset, manifest, _characters(corpus, held_out))


def training_config(config: CorpusConfig, texts: TextFile) -> CorpusConfig:
    """Return the `[corpus]` section with the sources replaced by files of their training texts."""
    reader = {"use": "jsonl", "id": "id", "title": "title", "url": "url"}
    sources = [
        Source(
            name=source.name,
            paths=[str(texts(source))],
            reader=reader,
            licence=source.licence,
            homepage=source.homepage,
            filters=source.filters,
        )
        for source in config.sources
    ]
    return msgspec.structs.replace(config, sources=sources)


def key_of(**parts: Any) -> str:
    """Return a short name for everything that an output depends on."""
    return fingerprint(msgspec.to_builtins(parts))[:16]


def dropped_documents(corpus: Path) -> Mapping[str, int]:
    """Return the number of documents that each step dropped, by `step.reason`."""
    return dict(sorted(Corpus(corpus).manifest.rejects.items()))


def _characters(corpus: Corpus, held_out: list[str]) -> int:
    if not held_out:
        return corpus.manifest.totals["characters"]
    return sum(len(doc.text) for doc in corpus.documents(["source", "text"]) if doc.source not in held_out)
