"""What a tokenizer is to be: the recipe's `[tokenizer]` section. `docs/tokenizer.md` documents every key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from jprep.corpus.config import StepRef, parse_config
from jprep.errors import ConfigError

ModelType = Literal["bpe", "byte-bpe", "unigram", "wordpiece"]
Boundaries = Literal["train", "hard", "none"]

SENTENCEPIECE_MODELS: tuple[ModelType, ...] = ("bpe", "unigram")
"""The kinds that sentencepiece serves: characters, with bytes for those that are not in the alphabet."""

DIGITS = "0-9０-９"
"""What `digits = "split"` takes for digits, for a regular expression's brackets: no version of Unicode decides it."""

_MOST_IDS = 1 << 24
_LEAST = {"vocab_size": 1, "alphabet": 0, "max_words": 1, "max_piece_chars": 1, "model_max_length": 0, "threads": 1}


class TokenizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[tokenizer]` section.

    Attributes:
        model: `bpe`, characters with byte fallback; `byte-bpe`, GPT-2's kind; `unigram`; `wordpiece`, BERT's.
        vocab_size: all ids, special tokens and bytes among them.
        alphabet: how many characters have a piece of their own; 0 takes as many as cover 99.95 % of the text. Not for
            `byte-bpe`, whose alphabet is the 256 bytes.
        boundaries: `train`, words guide the vocabulary and nothing is needed at use; `hard`, pieces never cross a word
            and what is encoded must be segmented; `none`, words are not looked at.
        special: a set's name (`roberta`, `bert`, `gpt`, `t5`, `none`) and further tokens; by default the model's set.
        digits: `keep` learns numbers as they are written, `split` makes every digit a token.
        spaces: `prefix` joins a space to the word after it, `alone` keeps runs of spaces apart from words.
        newline: `token` keeps a newline as a token of its own, `space` makes it a space.
        normalizers: what the tokenizer does to raw text; by default what the corpus did.
        max_words: distinct words that the trainer sees; rarer ones are cut, once, after all were counted.
        max_piece_chars: the longest piece, in characters.
        crossing: pieces that lie across a word boundary in more than this share of their uses are left out, under
            `boundaries = "train"`; 1 leaves none out.
        model_max_length: the longest input in tokens, for those who load it; 0 is the special set's own.
        threads: threads of the Unigram trainer. Its result depends on them, so they are not the machine's.
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
    """Check a `[tokenizer]` section.

    Raises:
        ConfigError: an unknown key, a value of the wrong type or out of its range, two keys that exclude each other.
    """
    config = parse_config(dict(section), TokenizerConfig, where=where)
    for key, least in _LEAST.items():
        if getattr(config, key) < least:
            raise ConfigError(f"tokenizer.{key} must be at least {least}", where=where, fix=f"give {least} or more")
    if config.vocab_size > _MOST_IDS:
        fix = f"give at most {_MOST_IDS:,}"
        raise ConfigError("tokenizer.vocab_size is beyond what any tokenizer has", where=where, fix=fix)
    if not 0 < config.crossing <= 1:
        raise ConfigError("tokenizer.crossing is a share", where=where, fix="give a number above 0, up to 1")
    if config.model == "byte-bpe" and config.alphabet:
        fix = 'leave `alphabet` out, or take model = "bpe"'
        raise ConfigError("the alphabet of byte-bpe is the 256 bytes", where=where, fix=fix)
    return config
