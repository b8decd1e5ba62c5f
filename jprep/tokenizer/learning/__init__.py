"""From counts to a vocabulary. sentencepiece learns; what it is given, and what becomes of its pieces, is ours."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from jprep.tokenizer.config import ModelType, TokenizerConfig
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import Vocabulary

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

VERSION = 1
"""Raised whenever the same counts would give another vocabulary than before."""

_LEARNERS: dict[ModelType, str] = {"bpe": "bpe", "byte-bpe": "byte_bpe", "unigram": "unigram", "wordpiece": "wordpiece"}


class _Learner(Protocol):
    def learn(
        self, counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path
    ) -> Vocabulary: ...


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn a vocabulary of exactly `config.vocab_size` ids.

    The same counts give the same vocabulary: with the same libraries, and for Unigram with a processor and a C library
    whose floats round alike.

    Args:
        counted: the words and characters of a corpus, and a sample of it.
        config: what is asked for.
        special: its special tokens.
        scratch: a folder for files that may be deleted afterwards; it is made.

    Raises:
        ConfigError: nothing to learn from, an alphabet too small, a vocabulary too small for what must be in it or
            larger than can be learnt, a special token that is an ordinary piece.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    learner = cast(_Learner, importlib.import_module(f"{__name__}.{_LEARNERS[config.model]}"))
    return learner.learn(counted, config, special, scratch)
