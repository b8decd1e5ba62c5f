"""Learn byte-level BPE with a list of merges, as GPT-2. sentencepiece is given bytes written as characters."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.formats import byte_level
from jprep.tokenizer.learning.assembly import check_all_learnt, check_special_tokens, pieces_to_learn, with_special
from jprep.tokenizer.learning.boundary_crossing import BoundarySample, BpeCandidates
from jprep.tokenizer.learning.selection import learn_fitting, select
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.learning.training_units import cut_reserved, read_units, write_units
from jprep.tokenizer.learning.word_sequences import Learn, PiecesAndSequences, sequence_counts
from jprep.tokenizer.sources.joins import PairJoins, complete, merged
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts

_LONGEST_CHARACTER = 4  # bytes


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn byte-level BPE; see `jprep.tokenizer.learning.learn`. Order: the 256 bytes, merged pieces by rank."""
    needed = pieces_to_learn(config, special, bytes=len(byte_level.ALPHABET))
    text, counts = read_units(counted.words)
    spelt = byte_level.encode_bytes(cut_reserved(text, config, special))
    parts = write_units(scratch / "units.tsv", spelt, counts, BALLAST)
    # The newline is always a token of its own, so the sample's newlines are unchanged.
    base = [
        VocabularyPiece("<unk>", "unknown"),
        *(VocabularyPiece(symbol, "normal", -1e9) for symbol in [*byte_level.ALPHABET, "\n"]),
    ]
    sample = BoundarySample.of(
        counted.sample, config, BpeCandidates(base, byte_level.encode_bytes, len, byte_fallback=False)
    )
    learnt: Learn = partial(_learn_pieces, scratch / "units.tsv", config.max_piece_chars, config.least_count)
    if config.boundaries == "super":
        spell, symbols = byte_level.encode_bytes, byte_level.ALPHABET
        learnt = PiecesAndSequences(learnt, needed, counted, config, special, symbols, spell, scratch)
    replay = _Replay()
    chosen = select(learnt, needed, replay.reached, sample)
    ranked, merges = _complete(chosen.pieces, replay.merges, config, needed)
    check_all_learnt(config, needed - len(ranked))
    check_special_tokens(config, map(byte_level.decode_piece, ranked))
    check_special_tokens(config, ranked)
    pieces = [VocabularyPiece(piece) for piece in [*byte_level.ALPHABET, *ranked]]
    found = chosen.counts | sequence_counts(learnt, chosen.pieces) | {"units.trained": parts}
    return Vocabulary(config, special, with_special(special, pieces), merges, "", found)


def _complete(
    learnt: list[str], merges: list[tuple[str, str]], config: TokenizerConfig, room: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the merged pieces with the required ones among them, and all merges."""
    if not (required := [byte_level.encode_bytes(piece) for piece in config.required_list]):
        return learnt, merges
    pieces, joins = complete(learnt, lambda size: PairJoins(merges[:size]), required, room, config)
    return pieces, list(joins.ranks)


def _learn_pieces(units: Path, longest: int, least: int, wanted: int) -> list[str]:
    """Return the first pieces of at most `longest` characters; the trainer can only limit bytes."""
    learn = partial(train_bpe, units, byte_level.ALPHABET, longest=longest * _LONGEST_CHARACTER, least=least)
    return learn_fitting(
        learn, lambda learnt: [piece for piece in learnt if byte_level.count_characters(piece) <= longest], wanted
    )


class _Replay:
    """Apply merges as encoding does, and keep the pieces that a single merge creates.

    Attributes:
        merges: the merges of the pieces that were kept last: the two symbols that the earlier merges leave of each
            piece.
    """

    def __init__(self) -> None:
        self.merges: list[tuple[str, str]] = []

    def reached(self, pieces: Sequence[str], needed: int) -> tuple[list[str], int]:
        """Return the first `needed` pieces that the earlier merges leave in two symbols, and how many were skipped."""
        made, joins, skipped = list[str](), PairJoins(()), 0
        for piece in pieces:
            if len(made) == needed:
                break
            pair = merged(piece, joins, least=2)
            if len(pair) == 2:
                joins.add(*pair)
                made.append(piece)
            skipped += len(pair) != 2
        self.merges = list(joins.ranks)
        return made, skipped
