"""Learn BPE of characters with byte fallback, with sentencepiece."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.learning.alphabet import choose_alphabet
from jprep.tokenizer.learning.assembly import (
    BYTE_PIECES,
    check_all_learnt,
    check_special_tokens,
    pieces_to_learn,
    with_special,
)
from jprep.tokenizer.learning.boundary_crossing import BoundarySample, BpeCandidates
from jprep.tokenizer.learning.selection import Selection, select
from jprep.tokenizer.learning.sentencepiece_trainer import BALLAST, train_bpe
from jprep.tokenizer.learning.training_units import cut_reserved, cut_unknown, read_units, write_units
from jprep.tokenizer.learning.word_sequences import Learn, PiecesAndSequences, sequence_counts
from jprep.tokenizer.sources.joins import PieceJoins, complete
from jprep.tokenizer.special_tokens import SpecialTokens
from jprep.tokenizer.vocabulary import SPACE_PIECE, Vocabulary, VocabularyPiece

if TYPE_CHECKING:
    from jprep.tokenizer.counting import UnitCounts


def learn(counted: UnitCounts, config: TokenizerConfig, special: SpecialTokens, scratch: Path) -> Vocabulary:
    """Learn BPE; see `jprep.tokenizer.learning.learn`. Order: bytes, merged pieces by rank, alphabet."""
    alphabet = choose_alphabet(counted.characters, config)
    needed = pieces_to_learn(config, special, bytes=len(BYTE_PIECES), characters=len(alphabet))
    text, counts = read_units(counted.words)
    text = cut_unknown(cut_reserved(text, config, special), alphabet)
    parts = write_units(scratch / "units.tsv", _spell(text), counts, BALLAST)
    symbols = _spell(alphabet)
    learnt: Learn = partial(
        train_bpe, scratch / "units.tsv", symbols, longest=config.max_piece_chars, least=config.least_count
    )
    if config.boundaries == "super":
        learnt = PiecesAndSequences(learnt, needed, counted, config, special, symbols, _spell, scratch)
    chosen = _select(learnt, symbols, counted.sample, config, needed)
    merges = _complete(chosen.pieces, config, needed)
    check_all_learnt(config, needed - len(merges))
    check_special_tokens(config, merges)
    ranked = [*merges, *symbols]
    pieces = [*BYTE_PIECES, *(VocabularyPiece(piece, "normal", float(-rank)) for rank, piece in enumerate(ranked))]
    found = chosen.counts | sequence_counts(learnt, chosen.pieces) | {"units.trained": parts}
    return Vocabulary(config, special, with_special(special, pieces), [], alphabet, found)


def _select(learnt: Learn, symbols: str, sample: Path, config: TokenizerConfig, needed: int) -> Selection:
    base = [
        VocabularyPiece("<unk>", "unknown"),
        *BYTE_PIECES,
        *(VocabularyPiece(symbol, "normal", -1e9) for symbol in symbols),
    ]
    candidates = BpeCandidates(base, _spell, _size, byte_fallback=True)
    judged = BoundarySample.of(sample, config, candidates)
    return select(learnt, needed, partial(_reached, candidates), judged)


def _reached(candidates: BpeCandidates, pieces: Sequence[str], needed: int) -> tuple[list[str], int]:
    left, lost = list(pieces), 0
    while unreachable := candidates.unreachable(left[:needed]):
        left, lost = [piece for piece in left if piece not in unreachable], lost + len(unreachable)
    return left[:needed], lost


def _complete(learnt: list[str], config: TokenizerConfig, room: int) -> list[str]:
    """Return the merged pieces with the required ones among them."""
    if not (required := [_spell(piece) for piece in config.required_list if len(piece) > 1]):
        return learnt
    return complete(learnt, lambda size: PieceJoins(learnt[:size]), required, room, config)[0]


def _spell(text: str) -> str:
    return text.replace(" ", SPACE_PIECE)


def _size(piece: str) -> int:
    return len(piece.replace(SPACE_PIECE, " ").encode())
