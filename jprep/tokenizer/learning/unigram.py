"""Learns a Unigram model (Kudo 2018) with byte fallback, with sentencepiece."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.assembly import BYTES, refuse_clash, refuse_too_large, room, with_special
from jprep.tokenizer.learning.sentencepiece_trainer import train_unigram
from jprep.tokenizer.learning.training_units import cut_reserved, cut_strangers, read_units, write_units
from jprep.tokenizer.learning.unigram_seeds import write_seeds
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import SPACE, Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """See `jprep.tokenizer.learning.learn`. After the bytes come pieces and characters by falling log probability."""
    alphabet = choose_alphabet(counted.characters, config)
    needed = room(config, special, bytes=len(BYTES), characters=len(alphabet))
    text, counts = read_units(counted.words)
    text = cut_strangers(cut_reserved(text, config, special), alphabet)
    units, seeds = scratch / "units.tsv", scratch / "seeds.tsv"
    parts = write_units(units, _spell(text), counts)
    write_seeds(units, seeds, config.max_piece_chars)
    learnt = _learn(units, seeds, _spell(alphabet), config, needed)
    missing = needed + len(alphabet) - len(learnt)
    while missing and len(again := _learn(units, seeds, _spell(alphabet), config, needed - missing)) < len(learnt):
        missing, learnt = needed + len(alphabet) - len(again), again  # asked for less, it gives less
    refuse_too_large(config, missing)
    refuse_clash(config, learnt)
    ranked = sorted(learnt, key=lambda piece: (-learnt[piece], piece))
    pieces = [*BYTES, *(VocabularyPiece(piece, "normal", learnt[piece]) for piece in ranked)]
    return Vocabulary(config, special, with_special(special, pieces), [], alphabet, {"units.trained": parts})


def _learn(units: Path, seeds: Path, symbols: str, config: TokenizerConfig, needed: int) -> dict[str, float]:
    """At most so many pieces, and every symbol: one that the trainer has not seen is as rare as its rarest piece."""
    scores = train_unigram(units, seeds, needed + len(symbols), config.max_piece_chars, config.threads)
    least = min(scores.values())
    pieces = sorted((piece for piece in scores if len(piece) > 1), key=lambda piece: (-scores[piece], piece))
    return {symbol: scores.get(symbol, least) for symbol in symbols} | {p: scores[p] for p in pieces[:needed]}


def _spell(text: str) -> str:
    return text.replace(" ", SPACE)
