"""`card.json`: what a tokenizer is, what it was made from, and how it scores."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.manifest import read_manifest, write_manifest
from jprep.errors import ConfigError
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import verify_file
from jprep.tokenizer.config import TokenizerConfig

CARD_JSON = "card.json"

FORMAT = 1
"""Raised whenever directories written before could not be read as those written now."""


class TokenizerCard(msgspec.Struct, frozen=True, kw_only=True):
    """A tokenizer's provenance. It is written last: a directory without it is not finished.

    Attributes:
        jprep: the version that wrote it.
        format: of the directory, see `FORMAT`.
        name: the recipe's or the corpus's name.
        signature: one line to cite.
        fingerprint: hash of `made_from`.
        made_from: the corpus's fingerprint, the whole config, the versions of our learning and of its libraries.
        config: the `[tokenizer]` section, defaults filled in.
        normalizers: what it does to raw text: each step's name, version, config and provenance.
        splitter: under `boundaries = "hard"` what finds sentences in raw text: the same of the splitter; else None.
        segmenter: in the same way, what finds words.
        sources: name, licence and homepage of each source of the corpus.
        counts: what was counted while training, by dotted name.
        figures: how it scores on a sample of its corpus.
        files: SHA-256 by name of each other file of the directory.
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

    def __post_init__(self) -> None:
        """Refuse files outside the folder."""
        for name in self.files:
            inner_path(name)


def read_card(folder: Path) -> TokenizerCard:
    """Read a tokenizer's card.

    Raises:
        ConfigError: there is no finished tokenizer there, or one of a later jprep's.
    """
    card = read_manifest(
        folder / CARD_JSON, TokenizerCard, what="tokenizer", command="jprep tokenizer train", work="training"
    )
    if card.format > FORMAT:
        what = f"this tokenizer has format {card.format}; this jprep knows formats up to {FORMAT}"
        raise ConfigError(what, where=str(folder), fix=f"install jprep {card.jprep} or later")
    return card


def verify_files(folder: Path, card: TokenizerCard, names: Iterable[str] | None = None) -> None:
    """See that a finished tokenizer's files are what was written.

    Args:
        folder: where they lie.
        card: the tokenizer's.
        names: the files to look at; all that the card names by default.

    Raises:
        DamagedError: one of them is missing or another.
        MachineError: one cannot be read.
    """
    for name in card.files if names is None else card.files.keys() & set(names):
        fix = "`jprep tokenizer train … --restart` trains the tokenizer again"
        verify_file(folder / name, card.files[name], fix)


def write_card(folder: Path, card: TokenizerCard) -> None:
    """Commit the card: from now on the tokenizer is whole."""
    write_manifest(folder / CARD_JSON, card)
