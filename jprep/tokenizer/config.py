"""The `[tokenizer]` section of a recipe. `docs/tokenizer.md` documents every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jprep.config import parse_config
from jprep.corpus.config import StepRef
from jprep.errors import ConfigError

ModelType = Literal["bpe", "byte-bpe", "unigram", "wordpiece"]
Boundaries = Literal["train", "hard", "none"]

SENTENCEPIECE_MODELS: tuple[ModelType, ...] = ("bpe", "unigram")
"""Model types with pieces of characters, and bytes for characters outside the alphabet; sentencepiece can load them."""

DIGITS = "0-9０-９"
"""The digits of `digits = "split"`, for a regular expression's character class, independent of the Unicode version."""

_MAX_VOCAB_SIZE = 1 << 24
_MINIMUM = {"vocab_size": 1, "alphabet": 0, "max_words": 1, "max_piece_chars": 1, "model_max_length": 0, "threads": 1}


class TokenizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[tokenizer]` section.

    Attributes:
        model: `bpe`, of characters with byte fallback; `byte-bpe`, as GPT-2; `unigram`; `wordpiece`, as BERT.
        vocab_size: number of ids, including special tokens and bytes.
        alphabet: number of characters with a piece of their own; 0 covers 99.95 % of the text. Not for `byte-bpe`,
            whose alphabet is the 256 bytes.
        boundaries: `train`: words guide the vocabulary, raw text can be encoded; `hard`: pieces never cross a word
            boundary, and text must be segmented before it is encoded; `none`: words are ignored.
        special: name of a set (`roberta`, `bert`, `gpt`, `t5`, `none`) and additional tokens; by default the set of the
            model type.
        digits: `keep` learns numbers as they are written, `split` makes every digit a token.
        spaces: `prefix` joins a space to the next word, `alone` keeps runs of spaces apart from words.
        newline: `token` keeps a newline as a token, `space` replaces it by a space.
        normalizers: normalisers that the tokenizer applies to raw text; by default those of the corpus.
        max_words: maximum distinct words that the trainer receives; rarer ones are dropped after all have been counted.
        max_piece_chars: maximum characters per piece.
        crossing: under `boundaries = "train"`, pieces that cross a word boundary in more than this share of their uses
            are dropped; 1 keeps all.
        model_max_length: maximum tokens per input, for libraries that load the tokenizer; 0 uses the special token
            set's value.
        threads: threads of the Unigram trainer. The result depends on it, so it is not the machine's number of cores.
    """

    model: ModelType = "bpe"
    vocab_size: int = 32_000
    alphabet: int = 0
    boundaries: Boundaries = "train"
    special: list[str] = []
    digits: Literal["keep", "split"] = "keep"
    spaces: Literal["prefix", "alone"] = "prefix"
    newline: Literal["token", "space"] = "token"
    normalizers: list[StepRef] | None = None
    max_words: int = 1_000_000
    max_piece_chars: int = 16
    crossing: float = 0.9
    model_max_length: int = 0
    threads: int = 8


def tokenizer_config(section: Mapping[str, Any], where: str) -> TokenizerConfig:
    """Validate a `[tokenizer]` section.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of range, or two keys that exclude each other.
    """
    config = parse_config(dict(section), TokenizerConfig, where=where)
    check_tokenizer_config(config, where)
    return config


def check_tokenizer_config(config: TokenizerConfig, where: str) -> None:
    """Check the values of a `[tokenizer]` section.

    Raises:
        ConfigError: a value out of its range, or two keys that exclude each other.
    """
    for key, minimum in _MINIMUM.items():
        if getattr(config, key) < minimum:
            raise ConfigError(f"tokenizer.{key} must be at least {minimum}", where=where, fix=f"use {minimum} or more")
    if config.vocab_size > _MAX_VOCAB_SIZE:
        fix = f"use at most {_MAX_VOCAB_SIZE:,}"
        raise ConfigError("tokenizer.vocab_size is too large", where=where, fix=fix)
    if not 0 < config.crossing <= 1:
        raise ConfigError("tokenizer.crossing must be a share", where=where, fix="use a number above 0, up to 1")
    if config.model == "byte-bpe" and config.alphabet:
        fix = 'remove `alphabet`, or use model = "bpe"'
        raise ConfigError("the alphabet of byte-bpe is the 256 bytes", where=where, fix=fix)
