"""Learn pieces that are sequences of whole words, for `boundaries = "super"`.

Pieces inside words are learnt first, as for `train`. Then each frequent word that is one piece becomes a symbol, and
BPE merges neighbouring symbols of the counted sequences. So a piece of several words begins and ends where its words
do, and the merges that spell it exist: they come after all merges inside words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.sequences import FIRST_SYMBOL, MAX_WORDS, frequent_words
from jprep.tokenizer.learning.selection import learn_fitting
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.learning.training_units import CUT, cut_reserved, read_units, write_units
from jprep.tokenizer.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

Learn = Callable[[int], list[str]]
"""Returns that many pieces by rank, or all that can be learnt."""


class PiecesAndSequences:
    """Learn pieces inside words, then sequences of words, then more of the former if there are too few sequences.

    Args:
        learn: learns pieces inside words.
        needed: number of pieces to learn; the config says how many of them are inside words.
        counted: words and sequences.
        config: the requested configuration.
        special: special tokens.
        symbols: all pieces of one symbol.
        spell: converts text to the characters of pieces.
        scratch: directory for temporary files.
    """

    def __init__(
        self,
        learn: Learn,
        needed: int,
        counted: UnitCounts,
        config: TokenizerConfig,
        special: SpecialTokens,
        symbols: Iterable[str],
        spell: Callable[[str], str],
        scratch: Path,
    ) -> None:
        self._learn, self._config, self._special, self._spell = learn, config, special, spell
        self._inside = learn(needed - int(needed * config.sequence_share))
        self._words = frequent_words(counted.words, config)
        single = {*self._inside, *symbols}
        several = [rank for rank, word in enumerate(self._words) if spell(word) not in single]
        self._units = scratch / "sequences.tsv"
        self._symbols = _write(self._units, counted.sequences, {FIRST_SYMBOL + rank: CUT for rank in several})
        self._learnt: set[str] = set()

    def __call__(self, wanted: int) -> list[str]:
        """Return that many pieces by rank, or all that can be learnt."""
        sequences = self._sequences(wanted - len(self._inside))
        self._learnt.update(sequences)
        found = dict.fromkeys([*self._inside, *sequences])
        if len(found) < wanted:
            found |= dict.fromkeys(self._learn(wanted))
        return list(found)[:wanted]

    def _sequences(self, wanted: int) -> list[str]:
        if not self._symbols or wanted < 1:
            return []
        learn = partial(train_bpe, self._units, self._symbols, longest=MAX_WORDS, least=self._config.least_count)
        return learn_fitting(learn, self._fitting, wanted)

    def _fitting(self, learnt: Sequence[str]) -> list[str]:
        """Return sequences of symbols as new pieces, without those that are too long or hold a special token."""
        texts = ["".join(self._words[ord(symbol) - FIRST_SYMBOL] for symbol in piece) for piece in learnt]
        whole = cut_reserved("\n".join(texts), self._config, self._special).split("\n")
        fitting = (text for text in whole if text and CUT not in text and len(text) <= self._config.max_piece_chars)
        known = set(self._inside)
        return [piece for piece in dict.fromkeys(map(self._spell, fitting)) if piece not in known]

    def counts(self, pieces: Sequence[str]) -> dict[str, int]:
        """See `sequence_counts`."""
        return {"pieces.sequences": len(self._learnt.intersection(pieces))}


def _write(units: Path, sequences: Path | None, cuts: dict[int, str]) -> str:
    """Write the trainer's input, and return its symbols; none if there are no sequences."""
    if sequences is None or not sequences.stat().st_size:
        return ""
    text, counts = read_units(sequences)
    text = text.translate(cuts)
    if symbols := "".join(sorted(set(text) - {CUT, "\n"})):
        write_units(units, text, counts, BALLAST)
    return symbols


def sequence_counts(learn: Learn, pieces: Sequence[str]) -> dict[str, int]:
    """Return the number of sequences among the chosen pieces, by dotted name; nothing if there can be none."""
    return learn.counts(pieces) if isinstance(learn, PiecesAndSequences) else {}
