"""Assemble a vocabulary of the requested size: special tokens, fixed pieces and learnt pieces."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jprep.errors import ConfigError, Setting
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens
from jprep.tokenizer.vocabulary import VocabularyPiece

BYTE_PIECES = [VocabularyPiece(f"<0x{byte:02X}>", "byte") for byte in range(256)]
"""The pieces for characters outside the alphabet."""


def pieces_to_learn(config: TokenizerConfig, special: SpecialTokens, **fixed: int) -> int:
    """Return the number of pieces to learn.

    Args:
        config: gives the number of ids.
        special: special tokens.
        fixed: other fixed pieces: their name, and how many ids they take.

    Raises:
        ConfigError: the fixed pieces do not fit.
    """
    fixed = {"special tokens": len(special.tokens), **fixed}
    minimum = sum(fixed.values())
    if config.vocab_size < minimum:
        parts = ", ".join(f"{count} {name}" for name, count in fixed.items())
        smaller = "" if config.model in ("byte-bpe", "words") else ", or a smaller alphabet"
        size = _useful_size(minimum)
        fix, setting = f"vocab_size = {size} or more{smaller}", Setting("vocab_size", size)
        what = f"vocab_size is too small for {parts}: the minimum is {minimum}, which has no learnt pieces"
        raise ConfigError(what, where="tokenizer.vocab_size", fix=fix, setting=setting)
    return config.vocab_size - minimum


def _useful_size(minimum: int) -> int:
    """Return a vocabulary size of which at least half are learnt pieces: 1000 times a power of two."""
    size = 1000
    while size < 2 * minimum:
        size *= 2
    return size


def check_all_learnt(config: TokenizerConfig, missing: int) -> None:
    """Raise ConfigError if some of the requested pieces could not be learnt."""
    if missing:
        learnable = config.vocab_size - missing
        what = f"only {learnable} of {config.vocab_size} ids can be learnt from this corpus"
        if config.least_count > 1:
            what += f" with min_frequency = {config.least_count}"
        fix, setting = f"vocab_size = {learnable}", Setting("vocab_size", learnable)
        raise ConfigError(what, where="tokenizer.vocab_size", fix=fix, setting=setting)


def check_special_tokens(config: TokenizerConfig, spellings: Iterable[str]) -> None:
    """Raise ConfigError if an additional special token equals an ordinary piece."""
    additional = {token for token in config.special if token not in SPECIAL_TOKEN_SETS}
    for token in sorted(additional.intersection(spellings)):
        what = f"special token clash: {token!r} is an ordinary piece of this vocabulary"
        raise ConfigError(what, where="tokenizer.special", fix=f"choose a name that is not a word, e.g. <{token}>")


def with_special(special: SpecialTokens, pieces: Sequence[VocabularyPiece]) -> list[VocabularyPiece]:
    """Return all ids: the pieces between the special tokens."""

    def made(tokens: tuple[str, ...]) -> list[VocabularyPiece]:
        return [VocabularyPiece(token, "unknown" if token == special.unk else "special") for token in tokens]

    return [*made(special.head), *pieces, *made(special.tail)]
