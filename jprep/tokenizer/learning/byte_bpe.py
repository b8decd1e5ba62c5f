"""Learns GPT-2's kind of BPE: of bytes, with a list of merges. sentencepiece sees bytes written as characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats import byte_level
from jprep.tokenizer.learning.assembly import refuse_clash, refuse_too_large, room, with_special
from jprep.tokenizer.learning.boundary_crossing import BoundarySample, BpeCandidates
from jprep.tokenizer.learning.selection import select
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, merges
from jprep.tokenizer.learning.training_units import cut_reserved, read_units, write_units
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

_LONGEST_CHARACTER = 4  # bytes


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """See `jprep.tokenizer.learning.learn`. After the 256 bytes come the merged pieces by rank, each with its merge."""
    needed = room(config, special, bytes=len(byte_level.ALPHABET))
    text, counts = read_units(counted.words)
    spelt = byte_level.spell(cut_reserved(text, config, special))
    parts = write_units(scratch / "units.tsv", spelt, counts, BALLAST)
    # The newline is a token of its own in any case; so the sample's are left what they are.
    base = [
        VocabularyPiece("<unk>", "unknown"),
        *(VocabularyPiece(symbol, "normal", -1e9) for symbol in [*byte_level.ALPHABET, "\n"]),
    ]
    sample = BoundarySample.of(counted.sample, config, BpeCandidates(base, byte_level.spell, len, byte_fallback=False))
    learnt = partial(_merges, scratch / "units.tsv", config.max_piece_chars)
    replay = _Replay()
    chosen = select(learnt, needed, replay.reached, sample, config.crossing)
    refuse_too_large(config, needed - len(chosen.pieces))
    refuse_clash(config, map(byte_level.plain, chosen.pieces))
    refuse_clash(config, chosen.pieces)
    pieces = [VocabularyPiece(piece) for piece in [*byte_level.ALPHABET, *chosen.pieces]]
    counted_here = chosen.counts | {"units.trained": parts}
    return Vocabulary(config, special, with_special(special, pieces), replay.merges, "", counted_here)


def _merges(units: Path, longest: int, wanted: int) -> list[str]:
    """The first pieces of no more than `longest` characters: the trainer knows of bytes only."""
    asked = wanted + wanted // 8
    while True:
        learnt = merges(units, byte_level.ALPHABET, asked, longest * _LONGEST_CHARACTER)
        short = [piece for piece in learnt if byte_level.characters(piece) <= longest]
        if len(short) >= wanted or len(learnt) < asked:
            return short[:wanted]
        asked += 4 * (wanted - len(short))


class _Replay:
    """Merges text as use will; what it keeps has a merge each.

    Attributes:
        merges: that make the pieces which were kept last: the two symbols that the merges before leave of a piece.
    """

    def __init__(self) -> None:
        self.merges: list[tuple[str, str]] = []

    def reached(self, pieces: Sequence[str], needed: int) -> tuple[list[str], int]:
        """The first so many pieces that the merges before them leave in two, and how many were passed over."""
        made: list[str] = []
        ranks: dict[tuple[str, str], int] = {}
        passed = 0
        for piece in pieces:
            if len(made) == needed:
                break
            pair = _merged(piece, ranks)
            if len(pair) == 2:
                ranks[pair[0], pair[1]] = len(made)
                made.append(piece)
            passed += len(pair) != 2
        self.merges = list(ranks)
        return made, passed


def _merged(text: str, ranks: dict[tuple[str, str], int]) -> list[str]:
    """Text after these merges."""
    parts, none = list(text), len(ranks)
    while len(parts) > 2:
        found = [ranks.get(pair, none) for pair in pairwise(parts)]
        if (best := min(found)) == none:
            break
        at = found.index(best)
        left, right = parts[at : at + 2]
        joined, at = [], 0
        while at < len(parts):
            hit = parts[at] == left and parts[at + 1 : at + 2] == [right]
            joined.append(left + right if hit else parts[at])
            at += 1 + hit
        parts = joined
    return parts
