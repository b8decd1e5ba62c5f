"""Learn a vocabulary from counts. sentencepiece trains on prepared units; its pieces are selected here."""

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
"""Increased when the same counts would give a different vocabulary than before."""

_LEARNERS: dict[ModelType, str] = {
    "bpe": "bpe",
    "byte-bpe": "byte_bpe",
    "unigram": "unigram",
    "wordpiece": "wordpiece",
    "words": "words",
}


class _Learner(Protocol):
    def learn(
        self, counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path
    ) -> Vocabulary: ...


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn a vocabulary of exactly `config.vocab_size` ids; of whole words, of at most so many.

    The result is deterministic for the same libraries; for Unigram also for processors and C libraries that round
    floats alike.

    Args:
        counted: units and characters of a corpus, and a sample of it.
        config: the requested configuration.
        special: special tokens.
        scratch: directory for temporary files; it is created.

    Raises:
        ConfigError: no text, an alphabet that is too small, a vocabulary that is too small for its fixed pieces or
            larger than can be learnt, or a special token that is an ordinary piece.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    learner = cast(_Learner, importlib.import_module(f"{__name__}.{_LEARNERS[config.model]}"))
    return learner.learn(counted, config, special, scratch)
