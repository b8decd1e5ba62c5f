"""Learn WordPiece (Schuster and Nakajima 2012) in the common way: a BPE vocabulary, applied by longest match.

The trainer of tokenizers takes no counts from Python; sentencepiece's does. It is given one code point per symbol:
under `hard` and `bert` boundaries a character that continues a word (`##x`) has a different symbol than at the
beginning of a word.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.assembly import check_all_learnt, check_special_tokens, pieces_to_learn, with_special
from jprep.tokenizer.learning.boundary_crossing import BoundarySample
from jprep.tokenizer.learning.longest_match import LongestMatch
from jprep.tokenizer.learning.selection import select
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.learning.training_units import CUT, cut_reserved, cut_unknown, read_units, write_units
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import (
    CONTINUATION_PREFIX,
    DOUBLE_HASH,
    NEWLINE_PIECE,
    SPACE_PIECE,
    Vocabulary,
    VocabularyPiece,
)

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

_FIRST_SYMBOL = 0x10000  # code points from here have no meaning to the trainer, and there are a million of them

_SPELLING = str.maketrans({" ": SPACE_PIECE, "\n": NEWLINE_PIECE})


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn WordPiece; see `jprep.tokenizer.learning.learn`. Order: alphabet, continuing characters, pieces by rank.

    Under `hard` and `bert` boundaries each character that continues a word somewhere has a second piece, `##x`.
    """
    alphabet = choose_alphabet(counted.characters, config)
    symbols = _Symbols(alphabet, hard=config.boundaries in ("hard", "bert"))
    text, counts = read_units(counted.words)
    text = cut_unknown(cut_reserved(text, config, special), alphabet)
    if symbols.hard:
        text = re.sub(DOUBLE_HASH, f"#{CUT}", text)
    spelt = symbols.spell(text)
    parts = write_units(scratch / "units.tsv", spelt, counts, BALLAST)
    continuing = symbols.continuing(spelt)
    needed = pieces_to_learn(config, special, characters=len(alphabet) + len(continuing))
    sample = BoundarySample.of(counted.sample, config, LongestMatch(alphabet))

    def learnt(wanted: int) -> list[str]:
        all_symbols = symbols.first + continuing
        found = train_bpe(scratch / "units.tsv", all_symbols, wanted, config.max_piece_chars, config.least_count)
        return [symbols.to_piece(piece) for piece in found]

    chosen = select(learnt, needed, _reached, sample)
    check_all_learnt(config, needed - len(chosen.pieces))
    pieces = [*map(symbols.to_piece, symbols.first + continuing), *chosen.pieces]
    check_special_tokens(config, pieces)
    made = with_special(special, [VocabularyPiece(piece) for piece in pieces])
    return Vocabulary(config, special, made, [], alphabet, chosen.counts | {"units.trained": parts})


def _reached(pieces: Sequence[str], needed: int) -> tuple[list[str], int]:
    """Return the first `needed` pieces: the longest match of a piece's own text is always the piece."""
    return list(pieces[:needed]), 0


class _Symbols:
    """The trainer's symbols for characters.

    Attributes:
        first: symbols of the alphabet, in its order.
        hard: whether continuing characters have symbols of their own.
    """

    def __init__(self, alphabet: str, *, hard: bool) -> None:
        self._alphabet, self.hard = alphabet, hard
        self.first = "".join(chr(_FIRST_SYMBOL + number) for number in range(len(alphabet)))
        self._first = {ord(each): symbol for each, symbol in zip(alphabet, self.first, strict=True) if each != "\n"}
        self._rest = {ord(each): ord(self.first[-1]) + number for number, each in enumerate(alphabet, 1)}

    def spell(self, text: str) -> str:
        """Convert units to symbols; newlines and cuts are unchanged. A word begins again after a cut."""
        if not self.hard:
            return text.translate(self._first)
        return re.sub(f"[^\n{CUT}]+", lambda unit: self._marked(unit[0]), text)

    def _marked(self, unit: str) -> str:
        return unit[0].translate(self._first) + unit[1:].translate(self._rest)

    def continuing(self, spelt: str) -> str:
        """Return the symbols of continuing characters in a converted text, in the alphabet's order."""
        return "".join(sorted(set(spelt) & set(map(chr, self._rest.values())))) if self.hard else ""

    def to_piece(self, piece: str) -> str:
        """Convert a piece of symbols to the vocabulary's spelling."""
        numbers = [ord(symbol) - _FIRST_SYMBOL for symbol in piece]
        text = "".join(self._alphabet[number % len(self._alphabet)] for number in numbers).translate(_SPELLING)
        return CONTINUATION_PREFIX + text if numbers[0] >= len(self._alphabet) else text
