"""Puts a vocabulary together: special tokens, what must be in it, what was learnt; exactly as many ids as asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jprep.errors import ConfigError
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.special_tokens import SPECIAL_TOKEN_SETS, SpecialTokens
from jprep.tokenizer.vocabulary import VocabularyPiece

BYTES = [VocabularyPiece(f"<0x{byte:02X}>", "byte") for byte in range(256)]
"""The pieces for what is outside the alphabet."""


def room(config: TokenizerConfig, special: SpecialTokens, **fixed: int) -> int:
    """How many pieces are to be learnt.

    Args:
        config: says how many ids there are.
        special: the special tokens.
        fixed: what else must be in the vocabulary: what it is called, and how many ids it takes.

    Raises:
        ConfigError: fewer than none.
    """
    fixed = {"special tokens": len(special.tokens), **fixed}
    least = sum(fixed.values())
    if config.vocab_size < least:
        parts = ", ".join(f"{count} {name}" for name, count in fixed.items())
        fix = f"vocab_size = {least} or more" + ("" if config.model == "byte-bpe" else ", or a smaller alphabet")
        raise ConfigError(f"vocab_size is too small for {parts}", where="tokenizer.vocab_size", fix=fix)
    return config.vocab_size - least


def refuse_too_large(config: TokenizerConfig, missing: int) -> None:
    """Raise ConfigError if so many of the pieces that were asked for could not be learnt."""
    if missing:
        most = config.vocab_size - missing
        what = f"only {most} of {config.vocab_size} ids can be learnt from this corpus"
        raise ConfigError(what, where="tokenizer.vocab_size", fix=f"vocab_size = {most}")


def refuse_clash(config: TokenizerConfig, spellings: Iterable[str]) -> None:
    """Raise ConfigError if a further special token is what an ordinary piece spells."""
    further = {token for token in config.special if token not in SPECIAL_TOKEN_SETS}
    for token in sorted(further.intersection(spellings)):
        what = f"special token clash: {token!r} is an ordinary piece of this vocabulary"
        raise ConfigError(what, where="tokenizer.special", fix=f"choose a name that is no word, e.g. <{token}>")


def with_special(special: SpecialTokens, pieces: Sequence[VocabularyPiece]) -> list[VocabularyPiece]:
    """All ids: the special tokens around the pieces."""

    def made(tokens: tuple[str, ...]) -> list[VocabularyPiece]:
        return [VocabularyPiece(token, "unknown" if token == special.unk else "special") for token in tokens]

    return [*made(special.head), *pieces, *made(special.tail)]
