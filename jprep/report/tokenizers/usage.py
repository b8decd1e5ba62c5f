"""How a tokenizer uses its vocabulary: lengths, frequencies and ranks of pieces, and which never occur."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import WORD
from jprep.report.tokenizers.cutting import PreparedTokenizers, encoded
from jprep.report.tokenizers.texts import KindOfText
from jprep.tokenizer.evaluation import TokenizerAdapter

Integers = npt.NDArray[np.int64]

SHARES = (0.5, 0.9, 0.99)
"""Shares of the tokens of which `Usage.coverage` tells how many pieces make them up."""

_BATCH = 500  # paragraphs
_RANKS = 400  # points of a curve
_LONGEST = 24  # characters: longer pieces are counted together


class PieceUse(NamedTuple):
    """A piece and how often it occurs."""

    text: str
    times: int


class Usage(NamedTuple):
    """The use of one tokenizer's vocabulary in a sample of text.

    Attributes:
        tokenizer: its name.
        size: number of ids.
        tokens: number of tokens of the sample.
        lengths: number of ids by their length in characters, from 0; the last entry is of that length or more.
        used_lengths: number of tokens by the length of their piece, in the same form.
        ranks: ranks from 1, evenly spaced in the logarithm.
        counts: how often the pieces of these ranks occur.
        frequent: the most frequent pieces, most frequent first.
        used: number of ids that occur.
        unused: pieces that do not occur, evenly spaced by id, without those for parts of a character.
        coverage: share of the tokens → number of the most frequent pieces that make them up.
        unknown: number of unknown tokens.
        partial: number of tokens that stand for a part of a character.
        unspelt: the most frequent characters without a piece of their own, with the times they occur.
    """

    tokenizer: str
    size: int
    tokens: int
    lengths: list[int]
    used_lengths: list[int]
    ranks: list[int]
    counts: list[int]
    frequent: list[PieceUse]
    used: int
    unused: list[str]
    coverage: dict[float, int]
    unknown: int
    partial: int
    unspelt: list[PieceUse]


def usage(tokenizers: PreparedTokenizers, kinds: Sequence[KindOfText], *, shown: int = 60) -> list[Usage]:
    """Count the pieces of each tokenizer in texts.

    Args:
        tokenizers: the tokenizers.
        kinds: the texts.
        shown: how many pieces of a kind are listed.
    """
    return [_usage(tokenizers, number, kinds, shown) for number in range(len(tokenizers.encoders))]


def _usage(tokenizers: PreparedTokenizers, number: int, kinds: Sequence[KindOfText], shown: int) -> Usage:
    encoder = tokenizers.encoders[number]
    uses, unspelt = np.zeros(encoder.size, np.int64), Counter[str]()
    for kind in kinds:
        paragraphs, prepare = list(kind.text.paragraphs), tokenizers.prepare(number, kind.text)
        for start in range(0, len(paragraphs), _BATCH):
            _, marked, found = encoded(encoder, prepare, paragraphs[start : start + _BATCH])
            uses += np.bincount(found.ids, minlength=encoder.size)
            unspelt.update(_unspelt(encoder, marked, found.ids, found.offsets, found.starts))
    return _of_counts(encoder, uses, unspelt, shown)


def _unspelt(
    encoder: TokenizerAdapter, marked: Sequence[str], ids: Integers, offsets: Integers, starts: Integers
) -> Iterable[str]:
    """Yield the characters at which an unknown token or a part of a character begins."""
    odd = encoder.parts[ids] | (ids == encoder.unknown)
    for token in np.flatnonzero(odd).tolist():
        text = marked[int(np.searchsorted(offsets, token, "right")) - 1].replace(WORD, "")
        if starts[token] < len(text) and (token == 0 or starts[token - 1] != starts[token] or not odd[token - 1]):
            yield text[starts[token]]


def _of_counts(encoder: TokenizerAdapter, uses: Integers, unspelt: Counter[str], shown: int) -> Usage:
    spelt, total = encoder.spellings(), int(uses.sum())
    sizes = np.minimum(_lengths(encoder, spelt), _LONGEST)
    order = np.argsort(-uses, kind="stable")
    ranked = uses[order]
    used = int(np.count_nonzero(uses))
    ranks = np.unique(np.geomspace(1, max(used, 1), _RANKS).astype(np.int64)) if used else np.zeros(0, np.int64)
    absent = np.flatnonzero((uses == 0) & ~encoder.parts)
    chosen = absent[np.linspace(0, len(absent) - 1, min(shown, len(absent))).astype(np.int64)]
    cumulated = np.cumsum(ranked)
    return Usage(
        tokenizer=encoder.name,
        size=encoder.size,
        tokens=total,
        lengths=np.bincount(sizes, minlength=_LONGEST + 1).tolist(),
        used_lengths=np.bincount(sizes, weights=uses, minlength=_LONGEST + 1).astype(np.int64).tolist(),
        ranks=ranks.tolist(),
        counts=ranked[ranks - 1].tolist(),
        frequent=[PieceUse(spelt[number], int(uses[number])) for number in order[: min(shown, used)].tolist()],
        used=used,
        unused=[spelt[number] for number in chosen.tolist()],
        coverage={share: int(np.searchsorted(cumulated, share * total)) + 1 for share in SHARES},
        unknown=int(uses[encoder.unknown]) if encoder.unknown >= 0 else 0,
        partial=int(uses[encoder.parts].sum()),
        unspelt=_most_frequent(unspelt, shown),
    )


def _lengths(encoder: TokenizerAdapter, spelt: Sequence[str]) -> Integers:
    """Return the number of characters of each piece; a part of a character counts 0."""
    lengths = np.fromiter((len(text) for text in spelt), np.int64, len(spelt))
    lengths[encoder.parts] = 0
    return lengths


def _most_frequent(counts: Counter[str], number: int) -> list[PieceUse]:
    """Return the largest counts, ties by code point."""
    return [PieceUse(*pair) for pair in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:number]]
