"""Learns WordPiece (Schuster and Nakajima 2012) as most do: the vocabulary of BPE, used by longest match.

tokenizers' own trainer takes no counts from Python; sentencepiece's does. Each symbol is one code point to it: under
hard boundaries a character that continues a word (`##x`) is another one than the same that begins it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.assembly import refuse_clash, refuse_too_large, room, with_special
from jprep.tokenizer.learning.boundary_crossing import BoundarySample
from jprep.tokenizer.learning.longest_match import LongestMatch
from jprep.tokenizer.learning.selection import select
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, merges
from jprep.tokenizer.learning.training_units import CUT, cut_reserved, cut_strangers, read_units, write_units
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import CONTINUATION_PREFIX, DOUBLE_HASH, NEWLINE, SPACE, Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

_FIRST_SYMBOL = 0x10000  # beyond it no code point means anything to the trainer, and there is room for a million

_WRITTEN = str.maketrans({" ": SPACE, "\n": NEWLINE})


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """See `jprep.tokenizer.learning.learn`. The alphabet comes first, then what continues a word, then pieces by rank.

    Under hard boundaries each character that continues a word somewhere has a second piece, `##x`.
    """
    alphabet = choose_alphabet(counted.characters, config)
    symbols = _Symbols(alphabet, hard=config.boundaries == "hard")
    text, counts = read_units(counted.words)
    text = cut_strangers(cut_reserved(text, config, special), alphabet)
    if symbols.hard:
        text = re.sub(DOUBLE_HASH, f"#{CUT}", text)
    spelt = symbols.spell(text)
    parts = write_units(scratch / "units.tsv", spelt, counts, BALLAST)
    continuing = symbols.continuing(spelt)
    needed = room(config, special, characters=len(alphabet), continuing_characters=len(continuing))
    sample = BoundarySample.of(counted.sample, config, LongestMatch(alphabet))

    def learnt(wanted: int) -> list[str]:
        found = merges(scratch / "units.tsv", symbols.first + continuing, wanted, config.max_piece_chars)
        return [symbols.written(piece) for piece in found]

    chosen = select(learnt, needed, _reached, sample, config.crossing)
    refuse_too_large(config, needed - len(chosen.pieces))
    pieces = [*map(symbols.written, symbols.first + continuing), *chosen.pieces]
    refuse_clash(config, pieces)
    made = with_special(special, [VocabularyPiece(piece) for piece in pieces])
    return Vocabulary(config, special, made, [], alphabet, chosen.counts | {"units.trained": parts})


def _reached(pieces: Sequence[str], needed: int) -> tuple[list[str], int]:
    """The first so many: the longest match of a piece's own text is the piece."""
    return list(pieces[:needed]), 0


class _Symbols:
    """The trainer's symbols for characters.

    Attributes:
        first: of each character of the alphabet, in its order.
        hard: whether a character that continues a word has another symbol.
    """

    def __init__(self, alphabet: str, *, hard: bool) -> None:
        self._alphabet, self.hard = alphabet, hard
        self.first = "".join(chr(_FIRST_SYMBOL + number) for number in range(len(alphabet)))
        self._first = {ord(each): symbol for each, symbol in zip(alphabet, self.first, strict=True) if each != "\n"}
        self._rest = {ord(each): ord(self.first[-1]) + number for number, each in enumerate(alphabet, 1)}

    def spell(self, text: str) -> str:
        """Units in symbols; newlines and cuts stay. What stands after a cut begins anew."""
        if not self.hard:
            return text.translate(self._first)
        return re.sub(f"[^\n{CUT}]+", lambda unit: self._marked(unit[0]), text)

    def _marked(self, unit: str) -> str:
        return unit[0].translate(self._first) + unit[1:].translate(self._rest)

    def continuing(self, spelt: str) -> str:
        """The symbols for continuing characters in a text that is spelt, in the alphabet's order."""
        return "".join(sorted(set(spelt) & set(map(chr, self._rest.values())))) if self.hard else ""

    def written(self, piece: str) -> str:
        """A piece of symbols as the vocabulary writes it."""
        numbers = [ord(symbol) - _FIRST_SYMBOL for symbol in piece]
        text = "".join(self._alphabet[number % len(self._alphabet)] for number in numbers).translate(_WRITTEN)
        return CONTINUATION_PREFIX + text if numbers[0] >= len(self._alphabet) else text
