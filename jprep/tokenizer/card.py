"""`card.json`: a tokenizer's configuration, inputs and scores."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.manifest import read_manifest, write_manifest
from jprep.engine.output_kinds import MODEL_EXPORT
from jprep.errors import ConfigError
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.external.files import external_card, is_external

CARD_JSON = "card.json"

TRAIN_AGAIN = "train the tokenizer again with --restart"
"""The fix for a damaged tokenizer."""

EXPORT_AGAIN = "move this folder away and export the run again"
"""The fix for the tokenizer of a damaged exported model."""

FORMAT = 1
"""Increased when this version could not read earlier directories as its own."""


class TokenizerCard(msgspec.Struct, frozen=True, kw_only=True):
    """`card.json`. It is written last: a directory without it is unfinished.

    Attributes:
        jprep: version of jprep that wrote it; "" for a tokenizer from elsewhere, which has no `card.json`.
        format: version of the directory format, see `FORMAT`.
        name: name of the recipe or corpus.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: fingerprint of the corpus, the complete config, versions of the trainer and its libraries.
        config: the `[tokenizer]` section with defaults filled in.
        normalizers: normalizers applied to raw text: each step's name, version, config and provenance.
        splitter: under `boundaries = "hard"`, the same for the sentence splitter of raw text; else None.
        segmenter: under `boundaries = "hard"`, the same for the segmenter of raw text; else None.
        sources: name, licence and homepage of each source of the corpus.
        counts: counters of the training, by dotted name.
        figures: scores on a sample of the corpus.
        files: SHA-256 of each other file of the directory by name.
    """

    jprep: str
    format: int
    name: str
    signature: str
    fingerprint: str
    made_from: dict[str, Any]
    config: TokenizerConfig
    normalizers: list[dict[str, Any]]
    splitter: dict[str, Any] | None = None
    segmenter: dict[str, Any] | None
    sources: list[dict[str, Any]]
    counts: dict[str, int]
    figures: dict[str, int | float]
    files: dict[str, str]

    @property
    def external(self) -> bool:
        """Whether jprep did not write the tokenizer."""
        return not self.jprep

    def __post_init__(self) -> None:
        """Refuse files outside the directory."""
        for name in self.files:
            inner_path(name)


def read_card(folder: Path) -> TokenizerCard:
    """Read a tokenizer's card; make one for a tokenizer from elsewhere.

    Raises:
        ConfigError: the directory holds no finished tokenizer, or one of a later jprep.
    """
    return external_card(folder) if is_external(folder) else read_own_card(folder)


def read_own_card(folder: Path) -> TokenizerCard:
    """Read the `card.json` of a directory, also of an extended tokenizer; see `read_card`."""
    card = read_manifest(folder / CARD_JSON, TokenizerCard, what="tokenizer", command="jprep tokenizer train")
    if card.format > FORMAT:
        what = f"this tokenizer has format {card.format}; this jprep reads formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {card.jprep} or later")
    return card


def verify_files(folder: Path, card: TokenizerCard, names: Iterable[str] | None = None) -> None:
    """Verify the hashes of a finished tokenizer's files.

    Args:
        folder: the tokenizer directory.
        card: the tokenizer's card.
        names: files to verify; by default all files of the card.

    Raises:
        DamagedError: a file is missing or has changed.
        MachineError: a file cannot be read.
    """
    fix = EXPORT_AGAIN if (folder / MODEL_EXPORT.manifest).exists() else TRAIN_AGAIN
    for name in card.files if names is None else card.files.keys() & set(names):
        verify_file(folder / name, card.files[name], fix)


def write_card(folder: Path, card: TokenizerCard) -> None:
    """Write the card, which marks the tokenizer as finished."""
    write_manifest(folder / CARD_JSON, card)
