"""Learn a Unigram model (Kudo 2018) with byte fallback, with sentencepiece."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.errors import ConfigError, Setting
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.assembly import (
    BYTE_PIECES,
    check_all_learnt,
    check_special_tokens,
    pieces_to_learn,
    with_special,
)
from jprep.tokenizer.learning.sentencepiece_trainer import train_unigram
from jprep.tokenizer.learning.training_units import cut_reserved, cut_unknown, read_units, write_units
from jprep.tokenizer.learning.unigram_seeds import write_seeds
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import SPACE_PIECE, Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

_PREFERRED = 1 / 256  # more than the rounding of exported scores


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn Unigram; see `jprep.tokenizer.learning.learn`. Order: bytes, then pieces by descending log probability."""
    alphabet = choose_alphabet(counted.characters, config)
    needed = pieces_to_learn(config, special, bytes=len(BYTE_PIECES), characters=len(alphabet))
    text, counts = read_units(counted.words)
    text = cut_unknown(cut_reserved(text, config, special), alphabet)
    units, seeds = scratch / "units.tsv", scratch / "seeds.tsv"
    parts = write_units(units, _spell(text), counts)
    write_seeds(units, seeds, config.max_piece_chars)
    learnt = _learn(units, seeds, _spell(alphabet), config, needed)
    missing = needed + len(alphabet) - len(learnt)
    while missing and len(again := _learn(units, seeds, _spell(alphabet), config, needed - missing)) < len(learnt):
        missing, learnt = needed + len(alphabet) - len(again), again  # a smaller size can give fewer pieces
    check_all_learnt(config, missing)
    learnt = _with_required(learnt, config)
    check_special_tokens(config, learnt)
    ranked = sorted(learnt, key=lambda piece: (-learnt[piece], piece))
    pieces = [*BYTE_PIECES, *(VocabularyPiece(piece, "normal", learnt[piece]) for piece in ranked)]
    return Vocabulary(config, special, with_special(special, pieces), [], alphabet, {"units.trained": parts})


def _learn(units: Path, seeds: Path, symbols: str, config: TokenizerConfig, needed: int) -> dict[str, float]:
    """Return at most `needed` pieces, and every symbol. Symbols that the trainer has not seen get the lowest score."""
    scores = train_unigram(units, seeds, needed + len(symbols), config.max_piece_chars, config.threads)
    least = min(scores.values())
    pieces = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (-scores[piece], piece))
    return {symbol: scores.get(symbol, least) for symbol in symbols} | {p: scores[p] for p in pieces[:needed]}


def _with_required(learnt: dict[str, float], config: TokenizerConfig) -> dict[str, float]:
    """Return as many pieces with the required ones among them, in place of the least likely ones.

    A required piece that was not learnt is a little more likely than its most likely pieces together.
    """
    required = [_spell(piece) for piece in config.required_list if len(piece) > 1]
    others = [piece for piece in learnt if len(piece) > 1 and piece not in required]  # the most likely ones first
    dropped = sum(piece not in learnt for piece in required)
    if dropped > len(others):
        over = dropped - len(others)
        fix = f"vocab_size = {config.vocab_size + over} or more, or require fewer pieces"
        what = f"{over} more ids are needed for the {len(required):,} required pieces"
        setting = Setting("vocab_size", config.vocab_size + over)
        raise ConfigError(what, where="tokenizer.vocab_size", fix=fix, setting=setting)
    excluded = set(others[len(others) - dropped :])
    scores = {piece: score for piece, score in learnt.items() if piece not in excluded}
    for piece in sorted(required, key=len):
        if piece not in scores:
            scores[piece] = _best_score(piece, scores) + _PREFERRED
    return scores


def _best_score(text: str, scores: dict[str, float]) -> float:
    """Return the log probability of the most likely pieces of a text, which has no unknown character."""
    best = [0.0]
    for end in range(1, len(text) + 1):
        best.append(max(best[start] + scores.get(text[start:end], -math.inf) for start in range(end)))
    return best[-1]


def _spell(text: str) -> str:
    return text.replace(" ", SPACE_PIECE)
