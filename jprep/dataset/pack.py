"""Packs a corpus: encodes its parts, joins them, and at the end writes the manifest."""

from __future__ import annotations

from importlib.metadata import version
from pathlib import Path
from typing import Any

from jprep.corpus.api import Corpus
from jprep.dataset.indexed.split import SUFFIXES
from jprep.dataset.manifest import (
    FORMAT,
    SPLITS,
    TRAIN,
    VALIDATION,
    DatasetConfig,
    DatasetManifest,
    ShardRange,
    Split,
    read_dataset,
    verify_split,
    write_dataset,
)
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.preprocessing.encode import EncodeStage, count_name
from jprep.dataset.preprocessing.merge import MergeStage
from jprep.dataset.preprocessing.validation_split import ValidationSplit
from jprep.engine.fingerprint import differences, fingerprint, plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DATASET as KIND
from jprep.engine.output_kinds import STATE
from jprep.engine.runner import Executor, ProgressReporter, refuse_mismatch, run_stage, sum_counts
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError
from jprep.tokenizer.formats.tokenizer_json import SENTENCEPIECE_MODEL, TOKENIZER_JSON
from jprep.tokenizer.tokenizer import Tokenizer

VERSION = 1
"""Raised whenever the same corpus and tokenizer would give other tokens or marks than before."""

_LIBRARIES = ("sentencepiece", "tokenizers", "zstandard")
_FILES = tuple(f"{split}{suffix}" for split in SPLITS for suffix in SUFFIXES)


def pack(
    corpus: Corpus,
    tokenizer_folder: Path,
    config: DatasetConfig,
    folder: Path,
    executor: Executor,
    progress: ProgressReporter,
    *,
    restart: bool = False,
) -> DatasetManifest:
    """Pack a corpus, or bring a packing that was begun to its end, or see that it is whole.

    Args:
        corpus: what is packed.
        tokenizer_folder: that of a finished tokenizer.
        config: which documents are kept for validation.
        folder: where; new, empty, or holding this very dataset.
        executor: where the encoding runs.
        progress: is told of it.
        restart: throw away another dataset that the folder holds.

    Raises:
        MismatchError: the folder holds another dataset; or a file of the tokenizer is not what its card says.
        ConfigError: the tokenizer does not fit the corpus, a split would be empty, or the folder holds something else
            than a dataset.
        JprepError: see its kinds; what was encoded stays, and the same call goes on.
    """
    out = dataset_directory(folder)
    out.check()
    plan = PackPlan(corpus, tokenizer_folder, config)
    with out.claim():
        return _Packing(plan, out, executor, progress).run(restart=restart)


def dataset_directory(folder: Path) -> OutputDirectory:
    """Return the directory of a dataset, which knows the names of its files."""
    return OutputDirectory(folder, KIND, files=_FILES)


class PackPlan:
    """What would be packed, checked: everything that can be found wrong beforehand is.

    Args:
        corpus: what is packed.
        tokenizer_folder: that of a finished tokenizer.
        config: which documents are kept for validation.

    Attributes:
        corpus: as given.
        tokenizer: loaded.
        config: as given.
        encoder: knows the ids between paragraphs and at the end of a document, and their type.
        splits: those that there will be.
        splitting: which documents they get.
        made_from: all that the dataset depends on.

    Raises:
        MismatchError: a file of the tokenizer is not what its card says.
        ConfigError: the tokenizer does not fit the corpus, or a split would be empty.
    """

    def __init__(self, corpus: Corpus, tokenizer_folder: Path, config: DatasetConfig) -> None:
        self.corpus, self.config = corpus, config
        self.tokenizer = Tokenizer(tokenizer_folder)
        self.encoder = DocumentEncoder(self.tokenizer)
        self.splits = [TRAIN, VALIDATION] if config.validation else [TRAIN]
        _refuse_unfit(corpus, self.tokenizer)
        self.splitting = ValidationSplit.of_corpus(config.validation, corpus.manifest)
        _refuse_empty(corpus, self.splitting, self.splits)
        manifest, card = corpus.manifest, self.tokenizer.card
        parts = [part.sha256 for part in manifest.parts]
        self.made_from = plain(
            {
                "format": FORMAT,
                "encoding": VERSION,
                "corpus": {"fingerprint": manifest.fingerprint, "files": fingerprint({"sha256": parts})},
                "tokenizer": {"fingerprint": card.fingerprint, "files": _model_files(self.tokenizer)},
                "segmenter": manifest.segmenter,
                "config": config,
                "libraries": {name: version(name) for name in _LIBRARIES},
            }
            | ({"split_by_text": self.splitting.by_text} if self.splitting.by_text else {})
        )


def _model_files(tokenizer: Tokenizer) -> dict[str, str]:
    return {
        name: tokenizer.card.files[name]
        for name in (TOKENIZER_JSON, SENTENCEPIECE_MODEL)
        if name in tokenizer.card.files
    }


def _refuse_unfit(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that takes other text, or other words, than this corpus has."""
    card, where = tokenizer.card, str(tokenizer.folder)
    own = {"normalizers": corpus.manifest.made_from["documents"]["normalizers"]}
    if found := list(differences(own, {"normalizers": card.normalizers})):
        what = f"this tokenizer normalises text otherwise than this corpus ({found[0]})"
        fix = "train one on this corpus, or build the corpus with the tokenizer's normalisers"
        raise ConfigError(what, where=where, fix=fix)
    if card.config.boundaries != "hard":
        return
    words, fix = corpus.manifest.segmenter, "build the corpus with the segmenter that the tokenizer was trained with"
    if words is None:
        what = "this corpus has no words, which a tokenizer with hard boundaries needs"
        raise ConfigError(what, where=str(corpus.folder), fix=fix)
    if found := list(differences(words, card.segmenter, "segmenter")):
        what = f"this tokenizer was trained on words that were found otherwise ({found[0]})"
        raise ConfigError(what, where=where, fix=fix)


def _refuse_empty(corpus: Corpus, splitting: ValidationSplit, splits: list[str]) -> None:
    """Refuse to make an empty split; documents are looked at until each has one."""
    missing = set(splits)
    for document in corpus.documents(splitting.columns):
        missing.discard(splitting.split_of(document))
        if not missing:
            return
    where = str(corpus.folder)
    if not corpus.manifest.parts:
        raise ConfigError("this corpus has no documents", where=where, fix="give one that has")
    what = f"none of the {len(corpus)} documents would be for {min(missing)}"
    more, less = "--set dataset.validation=0 does without", "give a smaller dataset.validation"
    raise ConfigError(what, where=where, fix=less if TRAIN in missing else f"give a larger share; {more}")


class _Packing:
    """One run of `pack`, under the folder's lock."""

    def __init__(self, plan: PackPlan, out: OutputDirectory, executor: Executor, progress: ProgressReporter) -> None:
        self._plan, self._out, self._folder = plan, out, out.path
        self._executor, self._progress = executor, progress

    def run(self, *, restart: bool) -> DatasetManifest:
        """Pack."""
        self._out.remove_leftovers()
        if restart:
            self._out.restart()
        if self._out.finished:
            return self._finished()
        plan = self._plan
        place = f"{STATE}/{EncodeStage.name}/"
        encoded = self._stage(EncodeStage(plan.corpus, plan.tokenizer.folder, plan.splitting, plan.made_from, place))
        joined = self._stage(MergeStage(encoded, plan.splits, plan.encoder.dtype, plan.made_from))
        dataset = self._seal(encoded, {receipt.task: receipt.outputs for receipt in joined})
        self._out.remove_state()
        return dataset

    def _stage(self, stage: Stage) -> list[Receipt]:
        return run_stage(stage, self._folder, self._out.state / stage.name, self._executor, self._progress)

    def _finished(self) -> DatasetManifest:
        """The manifest that stands, if it says just what this call would, and its files stand."""
        dataset = read_dataset(self._folder)
        refuse_mismatch(self._plan.made_from, dataset.made_from, self._folder)
        for split in dataset.splits:
            verify_split(self._folder, split)
        self._out.remove_state()
        return dataset

    def _seal(self, encoded: list[Receipt], files: dict[str, list[Output]]) -> DatasetManifest:
        plan, manifest = self._plan, self._plan.corpus.manifest
        mark, counts = fingerprint(plan.made_from), sum_counts([receipt.counts for receipt in encoded])
        dataset = DatasetManifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=manifest.name,
            signature=_signature(manifest.name, plan.made_from, mark),
            fingerprint=mark,
            made_from=plan.made_from,
            dtype=plan.encoder.dtype,
            vocab_size=plan.tokenizer.vocab_size,
            end=plan.encoder.end,
            newline=plan.encoder.newline,
            splits=[
                Split(name, counts[count_name(name, "documents")], counts[count_name(name, "tokens")], files[name])
                for name in plan.splits
            ],
            parts=_parts(manifest.parts, encoded, plan.splits),
            sources=manifest.sources,
            counts=counts,
        )
        write_dataset(self._folder, dataset)
        return dataset


def _parts(files: list[Output], encoded: list[Receipt], splits: list[str]) -> list[ShardRange]:
    """Which documents and tokens came from which part of the corpus."""
    parts, at = list[ShardRange](), dict.fromkeys((count_name(split, what) for split in SPLITS for what in _RANGES), 0)
    for file, receipt in zip(files, encoded, strict=True):
        ends = {name: start + receipt.counts.get(name, 0) for name, start in at.items()}
        ranges = {
            what: {split: (at[count_name(split, what)], ends[count_name(split, what)]) for split in splits}
            for what in _RANGES
        }
        parts.append(ShardRange(file.path, file.sha256, **ranges))
        at = ends
    return parts


_RANGES = ("documents", "tokens")


def _signature(name: str, made_from: dict[str, Any], mark: str) -> str:
    """One line that says what a dataset is: to be cited beside figures."""
    ids = [f"{kind}-id:{made_from[kind]['fingerprint'][:12]}" for kind in ("corpus", "tokenizer")]
    share = f"validation:{made_from['config']['validation']:g}"
    return "|".join([f"jprep:{version('jprep')}", f"dataset:{name}", *ids, share, f"id:{mark[:12]}"])
