"""Required pieces of a recipe: read from files, and checked before anything is counted."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import make_described_step
from jprep.errors import ConfigError
from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.counting.unsegmented import count_pieces
from jprep.tokenizer.special_tokens import special_tokens
from jprep.tokenizer.vocabulary import SPACE_PIECE

_BYTE = re.compile("<0x[0-9A-F]{2}>")
_NEVER_IN_UNITS = "\0\n\x1e\x1f"
_NEVER_IN_CHARACTERS = f"{_NEVER_IN_UNITS}\t\r▅{SPACE_PIECE}"
_MODELS = ("bpe", "byte-bpe", "unigram")
_BESIDE = ("", "あ", "a")
"""What stands on both sides of a piece when it is tried: normalizers may remove spaces at the ends of a text."""
_BOUNDARIES = ("train", "super", "none")


def resolve_required(config: TokenizerConfig) -> TokenizerConfig:
    """Return the config with the required pieces of all sources and files in its own list, each once.

    Raises:
        ConfigError: a file cannot be read, a list has a piece twice, or a piece cannot be one under the config.
    """
    lists = {"tokenizer.required": config.required_list}
    lists |= {f"tokenizer.sources, {source.name}": source.required for source in config.source_list}
    found = {where: _read(given, where) for where, given in lists.items() if given}
    if not found:
        return config
    if config.model not in _MODELS or config.boundaries not in _BOUNDARIES:
        what = f"required pieces are not for the model {config.model} with boundaries = {config.boundaries!r}"
        fix = f"remove them, or use one of {', '.join(_MODELS)} with one of {', '.join(_BOUNDARIES)}"
        raise ConfigError(what, where=next(iter(found)), fix=fix)
    for where, pieces in found.items():
        _check(pieces, config, where)
    every = list(dict.fromkeys(piece for pieces in found.values() for piece in pieces))
    return msgspec.structs.replace(config, required=every)


def check_normalized(required: Iterable[str], normalizers: Sequence[dict[str, Any]]) -> None:
    """Check that the normalizers of a tokenizer leave each required piece as it is in some text.

    Args:
        required: the pieces.
        normalizers: descriptions of the normalizers that the tokenizer applies to raw text.

    Raises:
        ConfigError: a piece is changed, so no text could give it.
    """
    steps = [make_described_step("normalizer", description) for description in normalizers]
    for piece in required if steps else ():
        texts = [f"{beside}{piece}{beside}" for beside in _BESIDE]
        for step in steps:
            texts = [step.apply(text) for text in texts]
        if not any(piece in text for text in texts):
            what = f"the required piece {piece!r} cannot be a piece of this tokenizer: its normalizers change it"
            fix = f"require {texts[0]!r}, or leave out the normalizers" if texts[0] else "remove it from the list"
            raise ConfigError(what, where="the required pieces of [tokenizer] or its sources", fix=fix)


def _read(given: list[str] | str, where: str) -> list[str]:
    """Return a list, or the lines of a file: spaces in a line belong to the piece."""
    if isinstance(given, list):
        return given
    try:
        lines = Path(given).read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        fix = "give a text file in UTF-8 with one piece in each line"
        raise ConfigError(f"cannot read the required pieces: {error}", where=f"{where}: {given}", fix=fix) from error
    return [line.removesuffix("\r") for line in lines if line.removesuffix("\r")]


def _check(pieces: list[str], config: TokenizerConfig, where: str) -> None:
    twice = [piece for piece, count in Counter(pieces).items() if count > 1]
    if twice:
        raise ConfigError(f"the piece {twice[0]!r} is required twice", where=where, fix="list it once")
    special = special_tokens(config).tokens
    for piece in pieces:
        if problem := next(_problems(piece, config, special), ""):
            what = f"the required piece {piece!r} cannot be a piece of this tokenizer: {problem}"
            raise ConfigError(what, where=where, fix="remove it from the list")


def _problems(piece: str, config: TokenizerConfig, special: Iterable[str]) -> Iterator[str]:
    """Yield why text can never give a piece."""
    if not piece:
        yield "it is empty"
    if found := set(piece) & set(_NEVER_IN_UNITS if config.model == "byte-bpe" else _NEVER_IN_CHARACTERS):
        yield f"{config.model} has no piece with {min(found)!r}"
    if any("\ud800" <= character <= "\udfff" for character in piece):
        yield "it has half of a surrogate pair"
    if token := next((token for token in special if token in piece), ""):
        yield f"it contains the special token {token}"
    if _BYTE.search(piece):
        yield "it contains the name of a byte"
    if config.digits == "split" and len(piece) > 1 and re.search(f"[{DIGITS}]", piece):
        yield 'digits = "split" makes each digit a piece'
    if config.spaces == "alone" and " " in piece and piece.strip(" "):
        yield 'spaces = "alone" keeps spaces apart'
    if config.boundaries == "none" and config.model == "byte-bpe" and list(count_pieces([piece], config)) != [piece]:
        yield "GPT-2's regular expression divides it"
