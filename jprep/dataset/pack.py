"""Pack a corpus into a dataset: encode its shards, merge them, and write the manifest."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.api import Corpus
from jprep.dataset.indexed.split import SUFFIXES
from jprep.dataset.manifest import (
    FORMAT,
    PACK_AGAIN,
    SPLITS,
    TEST,
    TRAIN,
    VALIDATION,
    DatasetConfig,
    DatasetManifest,
    HeldOut,
    Split,
    read_dataset,
)
from jprep.dataset.mix import WHERE, check_sources, packed_parts
from jprep.dataset.mix_parts import MixPart
from jprep.dataset.preprocessing.commit import CommitStage, files_of
from jprep.dataset.preprocessing.document_encoder import DocumentEncoder
from jprep.dataset.preprocessing.encode import EncodeStage, count_name
from jprep.dataset.preprocessing.merge import MergeStage
from jprep.dataset.preprocessing.part_columns import check_corpus_columns
from jprep.dataset.preprocessing.placement import Placement
from jprep.dataset.preprocessing.shard_ranges import left_out_sizes, packed_sizes, shard_ranges
from jprep.dataset.preprocessing.split_assignment import SplitAssignment
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.mismatch import describe_mismatch
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import DATASET as KIND
from jprep.engine.output_kinds import STATE
from jprep.engine.runner import Executor, ProgressReporter, sum_counts
from jprep.engine.stage import Output, Receipt, Stage
from jprep.errors import ConfigError
from jprep.tokenizer import load_tokenizer
from jprep.tokenizer.card import TokenizerCard
from jprep.tokenizer.formats.file_names import SENTENCEPIECE_MODEL, TOKENIZER_JSON
from jprep.tokenizer.normalizers import for_raw_text
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.tokenizer.word_spaces import keep_spaces

VERSION = 1
"""Increased when the same corpus and tokenizer would give other tokens or marks than before."""

STAGES = (EncodeStage.name, MergeStage.name, CommitStage.name)
"""The stages of a packing, in order."""

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
    """Pack a corpus, resume an interrupted packing, or verify a finished dataset.

    Args:
        corpus: the corpus to pack.
        tokenizer_folder: directory of a finished tokenizer, or one from elsewhere; see `load_tokenizer`.
        config: what the validation and the test split hold out.
        folder: output directory; new, empty, or with this very dataset.
        executor: runs the encoding.
        progress: progress callback.
        restart: discard another dataset in the output directory.

    Raises:
        MismatchError: the directory holds another dataset; or a file of the tokenizer differs from its card.
        ConfigError: the tokenizer does not fit the corpus, a split would be empty, or the directory holds something
            other than a dataset.
        JprepError: any other failure; finished work is kept, and the same call resumes.
    """
    out = dataset_directory(folder)
    out.check()
    plan = PackPlan(corpus, tokenizer_folder, config)
    with out.claim():
        return _Packing(plan, out, executor, progress).run(restart=restart)


def dataset_directory(folder: Path) -> OutputDirectory:
    """Return the output directory of a dataset, with the names of its files."""
    return OutputDirectory(folder, KIND, files=_FILES)


class PackPlan:
    """The inputs of a packing, validated before any work starts.

    Args:
        corpus: the corpus to pack.
        tokenizer_folder: directory of a finished tokenizer.
        config: what the validation and the test split hold out.

    Attributes:
        corpus: as given.
        tokenizer: the loaded tokenizer.
        config: as given.
        encoder: encodes documents; knows the separator ids and the token type.
        splits: names of the splits.
        splitting: assigns documents to splits.
        parts: the parts of the mixture that the training split is divided into; empty if it has none.
        placement: assigns documents to splits and parts.
        made_from: everything that the dataset depends on.

    Raises:
        MismatchError: a file of the tokenizer differs from its card.
        ConfigError: the tokenizer does not fit the corpus, a split would be empty, or the corpus does not keep what the
            parts compare.
    """

    def __init__(self, corpus: Corpus, tokenizer_folder: Path, config: DatasetConfig) -> None:
        self.corpus, self.config = corpus, config
        self.tokenizer = load_tokenizer(tokenizer_folder)
        self.encoder = DocumentEncoder(self.tokenizer)
        held_out = {VALIDATION: config.validation, TEST: config.test}
        self.splits = [TRAIN, *(name for name, value in held_out.items() if value)]
        _check_normalizers(corpus, self.tokenizer)
        _check_segmenter(corpus, self.tokenizer)
        _check_sources(corpus, config)
        self.splitting = SplitAssignment.of_corpus(config.validation, config.test, corpus.manifest)
        self.parts = packed_parts(config.mix, [source["name"] for source in corpus.manifest.sources])
        check_corpus_columns(self.parts, corpus)
        self.placement = Placement(self.splitting, self.parts)
        _check_not_empty(corpus, self.splitting, self.splits)
        self.made_from = plain(self._fields())

    def _fields(self) -> dict[str, Any]:
        """Return the fingerprint fields."""
        fields = {
            "format": FORMAT,
            "encoding": VERSION,
            "corpus": corpus_fields(self.corpus),
            "tokenizer": tokenizer_fields(self.tokenizer.card),
            "segmenter": self.corpus.manifest.segmenter,
            "config": _fingerprinted(self.config),
            "libraries": _libraries(),
        }
        by_text = {"split_by_text": self.splitting.by_text} if self.splitting.by_text else {}
        return fields | by_text | _part_fields(self.parts)


def corpus_fields(corpus: Corpus) -> dict[str, str]:
    """Return what the fingerprint of a dataset has of its corpus."""
    shards = fingerprint({"sha256": [shard.sha256 for shard in corpus.manifest.parts]})
    return {"fingerprint": corpus.manifest.fingerprint, "files": shards}


def tokenizer_fields(card: TokenizerCard) -> dict[str, Any]:
    """Return what the fingerprint of a dataset has of its tokenizer."""
    return {"fingerprint": card.fingerprint, "files": _model_files(card)}


def option_fields(config: DatasetConfig, sources: Iterable[str]) -> dict[str, Any]:
    """Return what the fingerprint of a dataset has of its options, for a corpus with these sources, and of jprep."""
    fields = {"format": FORMAT, "encoding": VERSION, "config": _fingerprinted(config), "libraries": _libraries()}
    return fields | _part_fields(packed_parts(config.mix, sources))


def _libraries() -> dict[str, str]:
    return {name: version(name) for name in _LIBRARIES}


def _part_fields(parts: list[MixPart]) -> dict[str, Any]:
    return {"mix": {"parts": parts}} if parts else {}


def _fingerprinted(config: DatasetConfig) -> dict[str, Any]:
    """Return the values that the packed files depend on: not the mixture, which is part of the sampler, but its parts.

    Those are a field of their own.
    """
    fields = msgspec.structs.asdict(config)
    return {key: value for key, value in fields.items() if key != "mix" and (key != "test" or value)}


def _model_files(card: TokenizerCard) -> dict[str, str]:
    files = card.files
    if card.external:
        return files
    return {name: files[name] for name in (TOKENIZER_JSON, SENTENCEPIECE_MODEL) if name in files}


def _check_normalizers(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that expects text of other normalizers.

    One from elsewhere takes any text, and so does one without normalizers whose sources had different ones.
    """
    card = tokenizer.card
    if card.external or (card.config.source_list and not card.normalizers):
        return
    normalizers = for_raw_text(corpus.manifest.made_from["documents"]["normalizers"])
    if tokenizer.card.config.boundaries == "spaces":
        normalizers = keep_spaces(normalizers)
    if found := describe_mismatch({"normalizers": normalizers}, {"normalizers": tokenizer.card.normalizers}):
        what = f"the tokenizer was trained on text that was normalized differently from this corpus ({found[0]})"
        fix = "train a tokenizer on this corpus, or build the corpus with the tokenizer's normalizers"
        raise ConfigError(what, where=str(tokenizer.folder), fix=fix)


def _check_segmenter(corpus: Corpus, tokenizer: Tokenizer) -> None:
    """Refuse a tokenizer that needs words, and one with hard boundaries that expects words of another segmenter."""
    boundaries = tokenizer.card.config.boundaries
    if boundaries == "spaces" and corpus.manifest.segmenter is None:
        fix = 'build the corpus with a segmenter; "spaces" takes the spaces of the text'
        what = "this corpus has no words, between which the tokenizer expects spaces"
        raise ConfigError(what, where=str(corpus.folder), fix=fix)
    if boundaries != "hard":
        return
    segmenter, fix = corpus.manifest.segmenter, "build the corpus with the segmenter of the tokenizer's corpus"
    if segmenter is None:
        what = "this corpus has no words, which a tokenizer with hard boundaries needs"
        raise ConfigError(what, where=str(corpus.folder), fix=fix)
    trained = tokenizer.card.segmenter
    if found := describe_mismatch({"segmenter": segmenter}, {"segmenter": trained}):
        reason = found[0] if trained else "it was trained on word counts"
        what = f"the tokenizer was trained on words of another segmenter ({reason})"
        raise ConfigError(what, where=str(tokenizer.folder), fix=fix)


def _check_sources(corpus: Corpus, config: DatasetConfig) -> None:
    """Refuse splits of sources that the corpus does not have."""
    known = [source["name"] for source in corpus.manifest.sources]
    if unknown := [name for name in config.held_out if name not in known]:
        fix = f"its sources: {', '.join(known)}"
        raise ConfigError(f"this corpus has no source {unknown[0]!r}", where="[dataset]", fix=fix)
    if config.mix:
        check_sources(config.mix, known, WHERE, held_out=config.held_out)


def _check_not_empty(corpus: Corpus, splitting: SplitAssignment, splits: list[str]) -> None:
    """Refuse a share that gives an empty split. Documents are read until each split has one."""
    missing = set(splits)
    for document in corpus.documents(splitting.columns):
        missing.discard(splitting.split_of(document))
        if not missing:
            return
    where = str(corpus.folder)
    if not corpus.manifest.parts:
        raise ConfigError("this corpus has no documents", where=where, fix="use a corpus with documents")
    what = f"none of the {len(corpus)} documents would be in the {min(missing)} split"
    more = f"use a larger share, or --set dataset.{min(missing)}=0 for no {min(missing)} split"
    raise ConfigError(what, where=where, fix="use a smaller dataset.validation" if TRAIN in missing else more)


class _Packing:
    """A run of `pack` that holds the directory's lock."""

    def __init__(self, plan: PackPlan, out: OutputDirectory, executor: Executor, progress: ProgressReporter) -> None:
        self._plan, self._out, self._folder = plan, out, out.path
        self._executor, self._progress = executor, progress

    def run(self, *, restart: bool) -> DatasetManifest:
        """Run both stages and write the manifest."""
        if restart:
            self._out.restart()
        if self._out.finished:
            return self._verify_finished()
        plan = self._plan
        state = f"{STATE}/{EncodeStage.name}/"
        encoding = EncodeStage(plan.corpus, plan.tokenizer.folder, plan.placement, plan.made_from, state)
        encoded, folders = self._stage(encoding), plan.placement.folders(plan.splits)
        if not any(output.folder in folders[TRAIN] for receipt in encoded for output in receipt.outputs):
            raise ConfigError("no document belongs to a part", where=WHERE, fix="use other limits, or add a part")
        pieces = f"{STATE}/{MergeStage.name}/"
        merged = self._stage(MergeStage(encoded, folders, plan.encoder.dtype, plan.made_from, pieces))
        committed = self._stage(CommitStage(merged, plan.splits, plan.made_from))
        dataset = self._seal(encoded, {name: files_of(name, [*merged, *committed]) for name in plan.splits})
        self._out.clean()
        return dataset

    def _stage(self, stage: Stage) -> list[Receipt]:
        return self._out.run_stage(stage, self._executor, self._progress)

    def _verify_finished(self) -> DatasetManifest:
        """Return the manifest of a finished dataset if it is the requested one and its files are intact."""
        dataset = read_dataset(self._folder)
        files = [file for split in dataset.splits for file in split.files]
        self._out.verify(self._plan.made_from, dataset.made_from, files, PACK_AGAIN)
        self._out.clean()
        return dataset

    def _seal(self, encoded: list[Receipt], files: dict[str, list[Output]]) -> DatasetManifest:
        plan, manifest = self._plan, self._plan.corpus.manifest
        names = [source["name"] for source in manifest.sources]
        identity, counts = fingerprint(plan.made_from), sum_counts([receipt.counts for receipt in encoded])
        dataset = DatasetManifest(
            jprep=version("jprep"),
            format=FORMAT,
            name=manifest.name,
            signature=_signature(manifest.name, plan.made_from, identity),
            fingerprint=identity,
            made_from=plan.made_from,
            dtype=plan.encoder.dtype,
            vocab_size=plan.tokenizer.vocab_size,
            end=plan.encoder.end,
            newline=plan.encoder.newline,
            splits=[_split(name, counts, files[name]) for name in plan.splits],
            parts=shard_ranges(manifest.parts, encoded, plan.splits, plan.parts),
            sources=manifest.sources,
            counts=counts,
            mix_parts=packed_sizes(encoded, plan.parts),
            left_out=left_out_sizes(manifest.parts, encoded, names) if plan.parts else [],
        )
        self._out.seal(dataset, keep={file.path for split in dataset.splits for file in split.files})
        return dataset


def _split(name: str, counts: dict[str, int], files: list[Output]) -> Split:
    return Split(name, counts[count_name(name, "documents")], counts[count_name(name, "tokens")], files)


def _signature(name: str, made_from: dict[str, Any], identity: str) -> str:
    """Return one line to cite with figures."""
    ids = [f"{kind}-id:{made_from[kind]['fingerprint'][:12]}" for kind in ("corpus", "tokenizer")]
    config = made_from["config"]
    shares = [f"{key}:{_held_out(config[key])}" for key in (VALIDATION, TEST) if key in config]
    return "|".join([f"jprep:{version('jprep')}", f"dataset:{name}", *ids, *shares, f"id:{identity[:12]}"])


def _held_out(value: HeldOut) -> str:
    return "+".join(value) if isinstance(value, list) else f"{value:g}"
