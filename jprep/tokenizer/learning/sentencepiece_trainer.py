"""Calls sentencepiece's trainers, and takes nothing from them but pieces and scores."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

BALLAST = "\U0010fffd"
"""A symbol that takes half of all counts, see `merges`."""

_UNKNOWN = "\x1f"  # the piece for what is unknown must have a name: one that no unit holds
_LONGEST = 512  # the largest max_sentencepiece_length that sentencepiece takes

# The units are final: nothing is normalised, split, left out or required.
_AS_IT_IS: dict[str, Any] = {
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


def merges(units: Path, symbols: str, wanted: int, longest: int) -> list[str]:
    """The pieces that BPE learns, by rank: those of two symbols and more. The first ones do not depend on `wanted`.

    sentencepiece computes in 32-bit floats how much of the text the symbols cover, and leaves out the rarest once that
    rounds to 1, at 2^-25 of the text. So the symbols are all required ones, which are taken first, and `BALLAST`,
    taken last, has half of all counts: none is left out.

    Args:
        units: written by `write_units`, with the ballast.
        symbols: each symbol in it.
        wanted: the most pieces to learn.
        longest: symbols in a piece.
    """
    size = 1 + len(symbols) + 1 + wanted
    scored = _train(units, "bpe", vocab_size=size, longest=longest, required_chars=symbols, num_threads=1)
    return [piece for piece, _ in scored if len(piece) > 1]


def train_unigram(units: Path, seeds: Path, size: int, longest: int, threads: int) -> dict[str, float]:
    """The pieces that Unigram learns, at most `size`, and their log probabilities.

    It computes in 32-bit floats: symbols in less than 2^-25 of the text may be missing.

    Args:
        units: written by `write_units`, without ballast: that would take half of all probability.
        seeds: written by `write_seeds`.
        size: the most pieces to learn, single symbols among them.
        longest: symbols in a piece.
        threads: the result depends on them.
    """
    more: dict[str, Any] = {"seed_sentencepieces_file": str(seeds), "num_threads": threads}
    return dict(_train(units, "unigram", vocab_size=1 + size, longest=longest, **more))


def _train(units: Path, kind: str, *, longest: int, **options: Any) -> list[tuple[str, float]]:
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        input=[str(units)],  # a list: a path may hold a comma
        model_writer=model,
        model_type=kind,
        max_sentencepiece_length=min(longest, _LONGEST),
        **_AS_IT_IS,
        **options,
    )
    learnt = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    scored = ((learnt.id_to_piece(n), learnt.get_score(n)) for n in range(learnt.get_piece_size()))
    return [(piece, score) for piece, score in scored if piece not in (_UNKNOWN, BALLAST)]
