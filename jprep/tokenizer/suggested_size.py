"""Suggest a vocabulary size that can be learnt from a text, before anything is counted."""

from __future__ import annotations

from collections import Counter
from math import isqrt

from jprep.corpus.api import Corpus
from jprep.tokenizer.config import ModelType, TokenizerConfig
from jprep.tokenizer.learning.alphabet import default_size

_LARGEST = TokenizerConfig().vocab_size
_OTHER_IDS = 264  # of bytes, and of special tokens
_CHARACTERS_PER_PIECE = 40  # in a text so small that its rare pieces would teach a model nothing
_PIECES = 16
"""Learnt pieces for the square root of the characters. If all that occur are learnt, 14 Japanese corpora of 19,000 to
3,500,000 characters have 21 or more: program documentation 21, reviews 22 to 25, others 31 to 64."""
_UNIGRAM_PIECES = 5
"""The same for Unigram, which learns no pieces that occur once: reviews have 6 to 8, program documentation 8, others
11 to 26."""
_ROUND = 100
_HEAD = 1_000_000  # characters of a corpus whose alphabet is counted


def suggest_vocab_size(characters: int, alphabet: int = 0, model: ModelType = "bpe") -> int:
    """Return a number of ids that can be learnt from most texts of a length, at most the default one.

    Args:
        characters: characters of the text, about.
        alphabet: how many of them get an id of their own, about, see `count_alphabet`.
        model: the model type.
    """
    pieces = (_UNIGRAM_PIECES if model == "unigram" else _PIECES) * isqrt(characters)
    learnt = min(pieces, characters // _CHARACTERS_PER_PIECE)
    size = _OTHER_IDS + alphabet + learnt
    return min(_LARGEST, size - size % _ROUND if learnt > _ROUND else size)


def suggest_vocab_size_for(corpus: Corpus, characters: int, config: TokenizerConfig) -> int:
    """Return a number of ids that a corpus can fill, at most the default one. Of a small one, characters are counted.

    Args:
        corpus: the corpus.
        characters: its characters.
        config: the model type and the alphabet.

    Raises:
        DamagedError: a file of the corpus is missing or damaged.
    """
    ids = suggest_vocab_size(characters, model=config.model)
    if config.alphabet or ids == _LARGEST:
        return suggest_vocab_size(characters, config.alphabet, config.model)
    head, size = list[str](), 0
    for doc in corpus:
        if size > _HEAD:
            break
        head.append(doc.text)
        size += len(doc.text)
    return suggest_vocab_size(characters, count_alphabet("".join(head)), config.model)


def count_alphabet(text: str) -> int:
    """Return how many characters get an id of their own by the default of `tokenizer.alphabet`; spaces do not count."""
    return default_size([total for _, total in Counter("".join(text.split())).most_common()])
