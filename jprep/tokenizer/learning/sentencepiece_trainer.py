"""Call sentencepiece's trainers and return their pieces and scores."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jprep.tokenizer.formats.sentencepiece_model import model_bytes
from jprep.tokenizer.vocabulary import VocabularyPiece

BALLAST = "\U0010fffd"
"""A symbol with half of all counts, see `train_bpe`."""

_UNKNOWN = "\x1f"  # required name of the unknown piece, which no unit contains
_LONGEST = 512  # sentencepiece's limit for max_sentencepiece_length

# Units are used unchanged: not normalized, split or dropped.
_UNCHANGED: dict[str, Any] = {
    "input_format": "tsv",
    "normalization_rule_name": "identity",
    "add_dummy_prefix": False,
    "remove_extra_whitespaces": False,
    "split_by_unicode_script": False,
    "split_by_number": False,
    "split_by_whitespace": False,
    "allow_whitespace_only_pieces": True,
    "max_sentence_length": 1 << 30,
    "input_sentence_size": 0,
    "character_coverage": 1.0,
    "hard_vocab_limit": False,
    "unk_piece": _UNKNOWN,
    "bos_id": -1,
    "eos_id": -1,
    "pad_id": -1,
    "minloglevel": 2,
}


def train_bpe(units: Path, symbols: str, wanted: int, longest: int, least: int = 1) -> list[str]:
    """Return the pieces of two or more symbols that BPE learns, by rank. The first ones do not depend on `wanted`.

    sentencepiece computes the coverage of symbols in 32-bit floats, and drops the rarest once it rounds to 1, at 2^-25
    of the text. So all symbols are passed as required ones, which are taken first, and `BALLAST`, taken last, has half
    of all counts: none is dropped.

    Args:
        units: file written by `write_units`, with the ballast.
        symbols: all symbols in it.
        wanted: maximum number of pieces.
        longest: maximum symbols per piece.
        least: minimum count of a merge.
    """
    size = 1 + len(symbols) + 1 + wanted
    scored = _train(units, "bpe", vocab_size=size, longest=longest, required_chars=symbols, num_threads=1)
    pieces = [piece for piece, _ in scored if len(piece) > 1]
    return pieces if least <= 1 else _frequent_pieces(units, symbols, pieces, least)


def _frequent_pieces(units: Path, symbols: str, pieces: Sequence[str], least: int) -> list[str]:
    """Return the pieces before the first merge of a pair that occurs less than `least` times.

    The count of a merge is the number of times that its piece is in the units after the merges up to it. Counts do not
    rise from one merge to the next, so the place is found by bisection.

    Args:
        units: file written by `write_units`.
        symbols: all symbols in it.
        pieces: pieces of two or more symbols by rank.
        least: minimum count.
    """
    with units.open(encoding="utf-8", newline="\n") as lines:
        counted = [(unit, int(count)) for unit, _, count in (line.rstrip("\n").rpartition("\t") for line in lines)]
    low, high = 0, len(pieces)
    while low < high:
        middle = (low + high) // 2
        if _merge_count(counted, symbols, pieces[: middle + 1]) >= least:
            low = middle + 1
        else:
            high = middle
    return list(pieces[:low])


def _merge_count(counted: Sequence[tuple[str, int]], symbols: str, pieces: Sequence[str]) -> int:
    """Return how often the last of some pieces is in the units after all of their merges."""
    import sentencepiece

    base = [VocabularyPiece("<unk>", "unknown"), *(VocabularyPiece(symbol, "normal", -1e9) for symbol in symbols)]
    ranked = [VocabularyPiece(piece, "normal", float(-rank)) for rank, piece in enumerate(pieces)]
    unknown = {"unk": (0, "<unk>"), "bos": (-1, ""), "eos": (-1, ""), "pad": (-1, "")}
    proto = model_bytes([*base, *ranked], "bpe", unknown, byte_fallback=False)
    holding = [(unit, count) for unit, count in counted if pieces[-1] in unit]
    encoded = sentencepiece.SentencePieceProcessor(model_proto=proto).encode(
        [unit for unit, _ in holding], return_type="numpy", num_threads=1
    )
    last = len(base) + len(ranked) - 1
    return sum(int((ids == last).sum()) * count for ids, (_, count) in zip(encoded, holding, strict=True))


def train_unigram(units: Path, seeds: Path, size: int, longest: int, threads: int) -> dict[str, float]:
    """Return the pieces that Unigram learns, at most `size`, and their log probabilities.

    sentencepiece computes in 32-bit floats: symbols in less than 2^-25 of the text may be missing.

    Args:
        units: file written by `write_units`, without ballast, which would take half of the probability.
        seeds: file written by `write_seeds`.
        size: maximum number of pieces, including single symbols.
        longest: maximum symbols per piece.
        threads: number of threads; the result depends on it.
    """
    more: dict[str, Any] = {"seed_sentencepieces_file": str(seeds), "num_threads": threads}
    return dict(_train(units, "unigram", vocab_size=1 + size, longest=longest, **more))


def _train(units: Path, kind: str, *, longest: int, **options: Any) -> list[tuple[str, float]]:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=[str(units)],  # a list, because a path may contain a comma
        model_writer=model,
        model_type=kind,
        max_sentencepiece_length=min(longest, _LONGEST),
        **_UNCHANGED,
        **options,
    )
    learnt = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    scored = ((learnt.id_to_piece(n), learnt.get_score(n)) for n in range(learnt.get_piece_size()))
    return [(piece, score) for piece, score in scored if piece not in (_UNKNOWN, BALLAST)]
