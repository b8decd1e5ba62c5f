"""Call sentencepiece's trainers and return their pieces and scores."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

BALLAST = "\U0010fffd"
"""A symbol with half of all counts, see `train_bpe`."""

_UNKNOWN = "\x1f"  # required name of the unknown piece, which no unit contains
_LONGEST = 512  # sentencepiece's limit for max_sentencepiece_length

# Units are used unchanged: not normalised, split or dropped.
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


def train_bpe(units: Path, symbols: str, wanted: int, longest: int) -> list[str]:
    """Return the pieces of two or more symbols that BPE learns, by rank. The first ones do not depend on `wanted`.

    sentencepiece computes the coverage of symbols in 32-bit floats, and drops the rarest once it rounds to 1, at 2^-25
    of the text. So all symbols are passed as required ones, which are taken first, and `BALLAST`, taken last, has half
    of all counts: none is dropped.

    Args:
        units: file written by `write_units`, with the ballast.
        symbols: all symbols in it.
        wanted: maximum number of pieces.
        longest: maximum symbols per piece.
    """
    size = 1 + len(symbols) + 1 + wanted
    scored = _train(units, "bpe", vocab_size=size, longest=longest, required_chars=symbols, num_threads=1)
    return [piece for piece, _ in scored if len(piece) > 1]


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
