"""The `[tokenizer]` section of a recipe. `docs/tokenizer.md` documents every key."""

from __future__ import annotations

import itertools
from collections.abc import Container, Iterator
from typing import Literal

import msgspec

from jprep.corpus.config import StepRef
from jprep.errors import ConfigError
from jprep.io.safe_names import check_unique_names
from jprep.tokenizer.sources.config import TokenizerSource, find_problems

ModelType = Literal["bpe", "byte-bpe", "unigram", "wordpiece", "words"]
Boundaries = Literal["train", "super", "hard", "none", "spaces", "bert"]

SENTENCEPIECE_MODELS: tuple[ModelType, ...] = ("bpe", "unigram")
"""Model types with pieces of characters, and bytes for characters outside the alphabet; sentencepiece can load them."""

DIGITS = "0-9０-９"
"""The digits of `digits = "split"`, for a regular expression's character class, independent of the Unicode version."""

_MAX_VOCAB_SIZE = 1 << 24
_MINIMUM = {
    "vocab_size": 1,
    "alphabet": 0,
    "max_words": 1,
    "max_piece_chars": 1,
    "model_max_length": 0,
    "threads": 1,
    "min_frequency": 0,
    "reserved": 0,
}
_SEQUENCES = 0.35
_SUPER_MODELS = ("bpe", "byte-bpe")
_SPACED_MODELS = ("bpe", "byte-bpe", "unigram", "words")


class TokenizerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The `[tokenizer]` section.

    Attributes:
        model: `bpe`, of characters with byte fallback; `byte-bpe`, as GPT-2; `unigram`; `wordpiece`, as BERT; `words`,
            one id for each word.
        vocab_size: number of ids, including special tokens and bytes; for `words` the maximum.
        alphabet: number of characters with a piece of their own; 0 covers 99.95 % of the text. Not for `byte-bpe`,
            whose alphabet is the 256 bytes.
        boundaries: `train`: words guide the vocabulary, raw text can be encoded; `super`: as `train`, and some pieces
            are sequences of whole words (`bpe` and `byte-bpe` only); `hard`: pieces never cross a word boundary, and
            text must be segmented before it is encoded; `none`: words are ignored; `spaces`: text has spaces between
            words, which no piece crosses; `bert`: words are found in raw text as BERT does (`wordpiece` only). `words`
            always has `spaces`.
        special: name of a set (`roberta`, `bert`, `gpt`, `t5`, `sentencepiece`, `hf-unigram`, `none`) and additional
            tokens; by default the set of the model type.
        digits: `keep` learns numbers as they are written, `split` makes every digit a token.
        spaces: `prefix` joins a space to the next word, `alone` keeps runs of spaces apart from words.
        newline: `token` keeps a newline as a token, `space` replaces it by a space.
        normalizers: normalizers that the tokenizer applies to raw text; by default those of the corpus.
        max_words: maximum distinct words that the trainer receives, and maximum distinct sequences of words; rarer ones
            are dropped after all have been counted.
        max_piece_chars: maximum characters per piece.
        crossing: under `boundaries = "train"`, pieces that cross a word boundary in more than this share of their uses
            are dropped; 1 keeps all.
        model_max_length: maximum tokens per input, for libraries that load the tokenizer; 0 uses the special token
            set's value.
        threads: threads of the Unigram trainer. The result depends on it, so it is not the machine's number of cores.
        min_frequency: occurrences that a pair of pieces needs to be merged, as in Hugging Face's trainers; for `words`,
            occurrences that a word needs. By default 1. Not for `unigram`.
        sequences: under `boundaries = "super"`, share of the learnt pieces that are sequences of words. By default
            0.35.
        handle_chinese_chars: under `boundaries = "bert"`, whether each CJK ideograph is a word, as in BERT; by default
            true.
        sources: sources of the training text in the proportions of their weights, instead of the whole corpus. For
            `boundaries` `train` and `none`.
        required: pieces that enter the vocabulary however rare they are: a list, or the path of a file with one piece
            in each line.
        reserved: number of special tokens for later use, `<|reserved_0|>` and so on.
        extends: a tokenizer that is extended: a folder with `tokenizer.json`, or a name on the Hub. Its ids stay as
            they are, and new pieces are appended up to `vocab_size`; its `model` and its special tokens are kept.
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
    # Absent from manifests and fingerprints where they are not set, as before they existed.
    min_frequency: int | msgspec.UnsetType = msgspec.UNSET
    sequences: float | msgspec.UnsetType = msgspec.UNSET
    handle_chinese_chars: bool | msgspec.UnsetType = msgspec.UNSET
    sources: list[TokenizerSource] | msgspec.UnsetType = msgspec.UNSET
    required: list[str] | str | msgspec.UnsetType = msgspec.UNSET
    reserved: int | msgspec.UnsetType = msgspec.UNSET
    extends: str | msgspec.UnsetType = msgspec.UNSET

    def __post_init__(self) -> None:
        """Set what the model type determines: tokens of whole words have no spaces and no newlines."""
        fixed: dict[str, str] = {}
        if self.model == "words" and self.boundaries == "train":
            fixed["boundaries"] = "spaces"
        if self.whole_words:
            fixed |= {"newline": "space", "spaces": "alone"}
        for key, value in fixed.items():
            msgspec.structs.force_setattr(self, key, value)

    @property
    def whole_words(self) -> bool:
        """Whether tokens have no space of their own: decoding puts one between two words."""
        return self.model == "words" or self.boundaries == "bert"

    @property
    def source_list(self) -> list[TokenizerSource]:
        """`sources` with its default."""
        return [] if self.sources is msgspec.UNSET else self.sources

    @property
    def required_list(self) -> list[str] | str:
        """`required` with its default."""
        return [] if self.required is msgspec.UNSET else self.required

    @property
    def reserved_tokens(self) -> list[str]:
        """The names of the reserved special tokens."""
        return self.reserved_beside(())

    def reserved_beside(self, taken: Container[str]) -> list[str]:
        """Return names of the reserved special tokens that are not among those of an existing vocabulary."""
        count = 0 if self.reserved is msgspec.UNSET else self.reserved
        names = (f"<|reserved_{number}|>" for number in itertools.count())
        return list(itertools.islice((name for name in names if name not in taken), count))

    @property
    def extended(self) -> str:
        """`extends` with its default: none."""
        return "" if self.extends is msgspec.UNSET else self.extends

    @property
    def needs_corpus(self) -> bool:
        """Whether the training reads the recipe's own corpus."""
        return not self.source_list or not all(source.paths or source.corpus for source in self.source_list)

    def for_small_text(self) -> TokenizerConfig:
        """Return the config without what a small vocabulary has no room for: required pieces and another tokenizer."""
        unset, sources = msgspec.UNSET, self.sources
        if self.source_list:
            sources = [msgspec.structs.replace(source, required=[]) for source in self.source_list]
        return msgspec.structs.replace(self, required=unset, extends=unset, sources=sources)

    @property
    def least_count(self) -> int:
        """`min_frequency` with its default."""
        return 1 if self.min_frequency is msgspec.UNSET else max(1, self.min_frequency)

    @property
    def sequence_share(self) -> float:
        """`sequences` with its default; 0 unless pieces can be sequences of words."""
        if self.boundaries != "super":
            return 0.0
        return _SEQUENCES if self.sequences is msgspec.UNSET else self.sequences

    @property
    def splits_ideographs(self) -> bool:
        """`handle_chinese_chars` with its default."""
        return self.handle_chinese_chars is not False


def check_tokenizer_config(config: TokenizerConfig, where: str) -> None:
    """Check the values of a `[tokenizer]` section.

    Raises:
        ConfigError: a value out of its range, or two keys that exclude each other.
    """
    for key, minimum in _MINIMUM.items():
        if getattr(config, key) is not msgspec.UNSET and getattr(config, key) < minimum:
            raise ConfigError(f"tokenizer.{key} must be at least {minimum}", where=where, fix=f"use {minimum} or more")
    if config.vocab_size > _MAX_VOCAB_SIZE:
        fix = f"use at most {_MAX_VOCAB_SIZE:,}"
        raise ConfigError("tokenizer.vocab_size is too large", where=where, fix=fix)
    if not 0 < config.crossing <= 1:
        raise ConfigError("tokenizer.crossing must be a share", where=where, fix="use a number above 0, up to 1")
    if config.boundaries == "super" and not 0 < config.sequence_share < 1:
        fix = "use a number above 0 and below 1"
        raise ConfigError("tokenizer.sequences must be a share", where=where, fix=fix)
    if config.model == "byte-bpe" and config.alphabet:
        fix = 'remove `alphabet`, or use model = "bpe"'
        raise ConfigError("the alphabet of byte-bpe is the 256 bytes", where=where, fix=fix)
    check_unique_names([each.name for each in config.source_list], what="source", key="tokenizer.sources", where=where)
    for key, what, fix in find_problems(config.source_list):
        raise ConfigError(f"{what} (key `{key}`)", where=where, fix=fix)
    for what, fix in [*_contradictions(config), *_source_contradictions(config), *_extension_contradictions(config)]:
        raise ConfigError(what, where=where, fix=fix)


def _contradictions(config: TokenizerConfig) -> Iterator[tuple[str, str]]:
    """Yield what excludes each other among model type, boundaries and options, and how to correct it."""
    model, boundaries = config.model, config.boundaries
    if model == "words" and boundaries != "spaces":
        yield (
            f"the model words takes text with spaces between words, not boundaries = {boundaries!r}",
            "remove `boundaries`",
        )
    if boundaries == "spaces" and model not in _SPACED_MODELS:
        yield (
            f'boundaries = "spaces" is not for the model {model}',
            'use boundaries = "bert", which takes spaces as word boundaries, or another model',
        )
    if boundaries == "super" and model not in _SUPER_MODELS:
        yield f'boundaries = "super" is not for the model {model}', 'use model = "bpe" or "byte-bpe"'
    if boundaries == "bert" and model != "wordpiece":
        yield f'boundaries = "bert" is not for the model {model}', 'use model = "wordpiece"'
    if config.whole_words and config.digits == "split":
        yield 'digits = "split" is not for whole words', 'remove it, or use model = "bpe"'
    if model == "unigram" and config.least_count > 1:
        yield "unigram merges no pieces, so it has no min_frequency", "remove it; `max_words` cuts rare words"


def _source_contradictions(config: TokenizerConfig) -> Iterator[tuple[str, str]]:
    """Yield what sources exclude, and how to correct it."""
    if not config.source_list:
        return
    if config.boundaries not in ("train", "none") or config.model == "words":
        yield (
            f'sources are for boundaries = "train" and "none", not for {config.model} with {config.boundaries!r}',
            "remove `sources`, or change `boundaries` and `model`",
        )
    if config.least_count > 1:
        yield "the counts of sources are multiplied for their weights, so min_frequency has no meaning", "remove it"
    for source in config.source_list:
        if config.boundaries == "none" and source.segmenter not in ("", "none"):
            yield (
                f'boundaries = "none" ignores the segmenter of the source {source.name!r}',
                'remove the segmenter, or use boundaries = "train"',
            )


_EXTENDED_MODELS = ("bpe", "byte-bpe", "unigram")
_TAKEN_FROM_EXTENDED = ("special", "digits", "spaces", "newline", "normalizers", "crossing", "model_max_length")
"""Keys that an extended tokenizer takes over."""


def _extension_contradictions(config: TokenizerConfig) -> Iterator[tuple[str, str]]:
    """Yield what `extends` excludes, and how to correct it."""
    if not config.extended:
        return
    if config.model not in _EXTENDED_MODELS or config.boundaries not in ("train", "none"):
        yield (
            f"{config.model} with boundaries {config.boundaries!r} cannot be extended",
            f"remove `extends`, or use {', '.join(_EXTENDED_MODELS)} with boundaries train or none",
        )
    for key in _TAKEN_FROM_EXTENDED:
        if getattr(config, key) != getattr(TokenizerConfig(), key):
            yield f"`{key}` is that of the tokenizer that is extended", f"remove `{key}`"
    if config.required_list or any(source.required for source in config.source_list):
        yield "required pieces cannot be added to the tokenizer that is extended", "remove `required`"
