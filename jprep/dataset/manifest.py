"""The `[dataset]` section of a recipe, and the manifest `dataset.json` of a finished dataset."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.dataset.mix import MixConfig, check_mix
from jprep.engine.manifest import read_manifest, write_manifest
from jprep.engine.stage import Output
from jprep.errors import ConfigError, DamagedError
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file

DATASET_JSON = "dataset.json"

FORMAT = 1
"""Increased when this version could not read earlier datasets as its own."""

TRAIN, VALIDATION, TEST = "train", "validation", "test"
SPLITS = (TRAIN, VALIDATION, TEST)

PACK_AGAIN = "pack the dataset again with --restart"

WORD_START, SENTENCE_START = 1, 2
"""The two marks of a token: its first byte begins a word, or a sentence. `Split` documents how they are stored."""


HeldOut = float | list[str]
"""What a split holds out: a share of the documents, or the names of the sources that it consists of."""


class DatasetConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[dataset]` section.

    Attributes:
        validation: share of the documents in the validation split, chosen by the hash of each document's id; or the
            names of the corpus's sources that the split consists of, in whole. `tokenizer train` leaves out sources
            that are named here.
        test: the same for the test split, which no training reads; 0 makes none.
        mix: how the sources, or parts of them, are mixed in training; without it, each epoch has every row once. Of
            it, the packed files depend on the parts only.
    """

    validation: float | list[str] = 0.005
    test: float | list[str] = 0.0
    mix: MixConfig | None = None

    @property
    def held_out(self) -> list[str]:
        """Names of the sources that are not trained on."""
        return [*held_out_sources(self.validation), *held_out_sources(self.test)]


class Split(msgspec.Struct, frozen=True):
    """One split: `<name>.bin` and `<name>.idx` in Megatron's layout, and `<name>.marks`, two bits per token.

    `.marks` consists of (all numbers little-endian):

    - a header: magic `JPMARKS` and a zero byte, u32 version (1), u32 tokens per block (8,192; a multiple of 4);
    - the blocks: each is a zstd frame with the marks of that many tokens, the last one of the remaining tokens. In the
      uncompressed block, the marks of token i are in byte i // 4 at bits 2·(i % 4): `WORD_START`, `SENTENCE_START`;
    - a footer: u64 file offsets of each block's first byte and of the last block's end; u64 number of tokens.

    Attributes:
        name: `train`, `validation` or `test`.
        documents: number of sequences; each is one document.
        tokens: number of tokens, including one end-of-document token per document.
        files: the three files.
    """

    name: str
    documents: int
    tokens: int
    files: list[Output]

    def __post_init__(self) -> None:
        """Refuse a name that leads outside the directory."""
        inner_path(self.name)


class ShardRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """The documents and tokens of each split that came from one shard of the corpus.

    In a dataset with a mixture of parts, one range has what a part of the training split has of a shard, or what the
    other splits have of it.

    Attributes:
        path: the corpus shard.
        sha256: SHA-256 of that shard.
        documents: split → first document from this shard, and the one after the last.
        tokens: split → first token from this shard, and the one after the last.
        mix_part: the part of the mixture that these documents of the training split belong to, or "".
    """

    path: str
    sha256: str
    documents: dict[str, tuple[int, int]]
    tokens: dict[str, tuple[int, int]]
    mix_part: str = ""

    def __post_init__(self) -> None:
        """Refuse a path that leads outside the corpus."""
        inner_path(self.path)


class PackedPart(msgspec.Struct, frozen=True):
    """A part of the mixture in the training split. The parts are stored one after the other.

    Attributes:
        name: its name.
        documents: number of documents.
        tokens: number of tokens, including one end-of-document token per document.
    """

    name: str
    documents: int
    tokens: int


class LeftOut(msgspec.Struct, frozen=True):
    """Documents of the training split that no part of the mixture takes; they are not in the dataset.

    Attributes:
        source: their source.
        documents: number of documents.
        bytes: bytes of their text.
    """

    source: str
    documents: int
    bytes: int


class DatasetManifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`dataset.json`. It is written last: a directory without it is unfinished.

    Attributes:
        jprep: version of jprep that wrote it.
        format: version of the file formats, see `FORMAT`.
        name: name of the corpus.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: fingerprints of corpus and tokenizer, config, library versions.
        dtype: type of a token in `.bin`: `uint16` up to 65,536 ids, else `int32`.
        vocab_size: number of ids of the tokenizer.
        end: id of the end-of-document token.
        newline: id of the newline between two paragraphs; -1 if the tokenizer replaces newlines by spaces, the unknown
            token's id if the newline has no piece.
        splits: the splits, `train` first.
        parts: the corpus's shards in order; with parts of a mixture, part by part.
        sources: name, licence and homepage of each source of the corpus, and the hashes of its files.
        counts: counters by dotted name.
        mix_parts: the parts of the mixture, in order; empty if it has none.
        left_out: what no part takes, by source.
    """

    jprep: str
    format: int
    name: str
    signature: str
    fingerprint: str
    made_from: dict[str, Any]
    dtype: Literal["uint16", "int32"]
    vocab_size: int
    end: int
    newline: int
    splits: list[Split]
    parts: list[ShardRange]
    sources: list[dict[str, Any]]
    counts: dict[str, int]
    mix_parts: list[PackedPart] = []
    left_out: list[LeftOut] = []


def check_dataset_config(config: DatasetConfig, where: str) -> None:
    """Check the values of a `[dataset]` section.

    Raises:
        ConfigError: a value out of its range.
    """
    for key, value in (("validation", config.validation), ("test", config.test)):
        if not isinstance(value, list) and not 0 <= value < 1:
            fix = "use a number from 0 to below 1, or a list of sources"
            raise ConfigError(f"dataset.{key} must be a share", where=where, fix=fix)
    if sum(value for value in (config.validation, config.test) if not isinstance(value, list)) >= 1:
        raise ConfigError("dataset.validation and dataset.test leave nothing to train on", where=where)
    if repeated := [name for name in config.held_out if config.held_out.count(name) > 1]:
        what = f"the source {repeated[0]!r} is named twice in dataset.validation and dataset.test"
        raise ConfigError(what, where=where, fix="name it once")
    if config.mix:
        check_mix(config.mix, where)


def held_out_sources(held_out: HeldOut) -> list[str]:
    """Return the names of the sources of a split; none if it has a share of the documents."""
    return held_out if isinstance(held_out, list) else []


def describe_held_out(held_out: HeldOut) -> str:
    """Return a few words about what a split holds out."""
    if isinstance(held_out, list):
        return f"the source{'s' * (len(held_out) > 1)} {', '.join(held_out)}"
    return f"{held_out:g} of the documents"


def read_dataset(folder: Path) -> DatasetManifest:
    """Read a dataset's manifest.

    Raises:
        ConfigError: the directory holds no finished dataset.
    """
    return read_manifest(folder / DATASET_JSON, DatasetManifest, what="dataset", command="jprep dataset pack")


def find_split(dataset: DatasetManifest, name: str, where: Path) -> Split:
    """Return a split of a dataset.

    Args:
        dataset: the dataset's manifest.
        name: name of the split.
        where: the dataset directory, for the error.

    Raises:
        ConfigError: the dataset has no split of that name.
    """
    names = [split.name for split in dataset.splits]
    if name not in names:
        fix = f"available splits: {', '.join(names)}"
        raise ConfigError(f"this dataset has no split {name!r}", where=str(where), fix=fix)
    return dataset.splits[names.index(name)]


def refuse_other_tokenizer(dataset: DatasetManifest, fingerprint: str, *, where: Path, fix: str) -> None:
    """Refuse a tokenizer that the dataset was not packed with: its ids mean something else.

    Args:
        dataset: the dataset's manifest.
        fingerprint: the tokenizer's.
        where: the directory of the dataset or of the tokenizer, whichever the user chose.
        fix: how to correct it.

    Raises:
        ConfigError: it is another tokenizer.
    """
    if fingerprint != dataset.made_from["tokenizer"]["fingerprint"]:
        raise ConfigError("the dataset was packed with another tokenizer", where=str(where), fix=fix)


def verify_split(folder: Path, split: Split) -> None:
    """Verify the hashes of a split's files.

    Raises:
        DamagedError: a file is missing or has changed.
        MachineError: a file cannot be read.
    """
    for file in split.files:
        verify_file(folder / file.path, file.sha256, PACK_AGAIN)


def stored_size(folder: Path, split: Split) -> int:
    """Return the size of a split's files in bytes.

    Raises:
        DamagedError: a file is missing.
    """
    try:
        return sum((folder / file.path).stat().st_size for file in split.files)
    except FileNotFoundError as error:
        raise DamagedError("this file is missing", where=str(error.filename), fix=PACK_AGAIN) from error


def write_dataset(folder: Path, dataset: DatasetManifest) -> None:
    """Write the manifest, which marks the dataset as finished."""
    write_manifest(folder / DATASET_JSON, dataset)
