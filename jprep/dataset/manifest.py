"""What a dataset is to be, and what is on disk: the recipe's `[dataset]` section and `dataset.json`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from jprep.corpus.config import parse_config
from jprep.engine.manifest import read_manifest, write_manifest
from jprep.engine.stage import Output
from jprep.errors import ConfigError, DamagedError
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file

DATASET_JSON = "dataset.json"

FORMAT = 1
"""Raised whenever datasets written before could not be read as those written now."""

TRAIN, VALIDATION = "train", "validation"
SPLITS = (TRAIN, VALIDATION)

_PACK_AGAIN = "`jprep dataset pack … --restart` packs the corpus again"

WORD_START, SENTENCE_START = 1, 2
"""A token's two marks: its first byte stands at a word's, at a sentence's start. See `Split` for where they lie."""


class DatasetConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[dataset]` section.

    Attributes:
        validation: share of the documents that is kept for validation, chosen by the hash of a document's id.
    """

    validation: float = 0.005


class Split(msgspec.Struct, frozen=True):
    """One split: `<name>.bin` and `<name>.idx` in Megatron's layout, and `<name>.marks`, two bits a token.

    `.marks` has, with all numbers little-endian:

    - a header: magic `JPMARKS` and a zero byte, u32 version (1), u32 tokens of a block (8,192; a multiple of 4);
    - the blocks: each is one zstd frame of the marks of so many tokens, the last one of what is left. Unpacked, the
      marks of a block's token i lie in byte i // 4 at bits 2·(i % 4): `WORD_START`, `SENTENCE_START`;
    - a footer: u64 places in the file, where each block begins and where the last one ends; u64 tokens.

    Attributes:
        name: `train` or `validation`.
        documents: how many sequences it has; one is one document.
        tokens: all tokens, one end-of-document a document among them.
        files: the three files.
    """

    name: str
    documents: int
    tokens: int
    files: list[Output]

    def __post_init__(self) -> None:
        """Refuse a name that leads out of the folder."""
        inner_path(self.name)


class ShardRange(msgspec.Struct, frozen=True):
    """Which documents and tokens of each split came from one part of the corpus.

    Attributes:
        path: the corpus's part.
        sha256: of that part.
        documents: split → its first document of this part, and the one behind its last.
        tokens: split → its first token of this part, and the one behind its last.
    """

    path: str
    sha256: str
    documents: dict[str, tuple[int, int]]
    tokens: dict[str, tuple[int, int]]

    def __post_init__(self) -> None:
        """Refuse a path that leads out of the corpus."""
        inner_path(self.path)


class DatasetManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`dataset.json`: what a dataset is made of. It is written last: a folder without it is not finished.

    Attributes:
        jprep: the version that wrote it.
        format: of the files, see `FORMAT`.
        name: the corpus's name.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: the corpus's and the tokenizer's fingerprints, the config, the libraries.
        dtype: of a token in `.bin`: `uint16` up to 65,536 ids, else `int32`.
        vocab_size: the tokenizer's.
        end: the id that ends a document.
        newline: the id of a newline, which stands between two paragraphs; -1 where the tokenizer makes it a space, the
            unknown token's where it has no piece.
        splits: the splits, `train` first.
        parts: the corpus's parts in order.
        sources: name, licence and homepage of each source of the corpus, and its files' hashes.
        counts: what was counted, by dotted name.
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


def dataset_config(section: Mapping[str, Any], where: str) -> DatasetConfig:
    """Check a `[dataset]` section.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of its range.
    """
    config = parse_config(dict(section), DatasetConfig, where=where)
    if not 0 <= config.validation < 1:
        raise ConfigError("dataset.validation is a share", where=where, fix="give a number from 0 to below 1")
    return config


def read_dataset(folder: Path) -> DatasetManifest:
    """Read a dataset's manifest.

    Raises:
        ConfigError: there is no finished dataset there.
    """
    return read_manifest(
        folder / DATASET_JSON, DatasetManifest, what="dataset", command="jprep dataset pack", work="packing"
    )


def verify_split(folder: Path, split: Split) -> None:
    """See that a split's files are what was written.

    Raises:
        DamagedError: one is missing, or is not.
        MachineError: one cannot be read.
    """
    for file in split.files:
        verify_file(folder / file.path, file.sha256, _PACK_AGAIN)


def stored_size(folder: Path, split: Split) -> int:
    """Return how many bytes a split's files take.

    Raises:
        DamagedError: one is missing.
    """
    try:
        return sum((folder / file.path).stat().st_size for file in split.files)
    except FileNotFoundError as error:
        raise DamagedError("this file is missing", where=str(error.filename), fix=_PACK_AGAIN) from error


def write_dataset(folder: Path, dataset: DatasetManifest) -> None:
    """Commit the manifest: from now on the dataset is whole."""
    write_manifest(folder / DATASET_JSON, dataset)
