"""Replay the joins of BPE on a text, and add required pieces to those that were learnt, whatever their counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Protocol, TypeVar

from jprep.errors import ConfigError, Setting
from jprep.tokenizer.config import TokenizerConfig

_NEVER = 1 << 62


class Joins(Protocol):
    """The joins of neighbouring symbols that BPE makes, with their ranks."""

    def rank(self, left: str, right: str) -> int:
        """Return the rank of a join, or a large number if there is none."""

    def add(self, left: str, right: str) -> None:
        """Add a join, after all others."""


class PieceJoins:
    """Joins of any two neighbours that form a piece, as sentencepiece makes them.

    Args:
        pieces: pieces by rank.
    """

    def __init__(self, pieces: Iterable[str]) -> None:
        self._ranks = {piece: rank for rank, piece in enumerate(pieces)}

    def rank(self, left: str, right: str) -> int:
        """See `Joins`."""
        return self._ranks.get(left + right, _NEVER)

    def add(self, left: str, right: str) -> None:
        """See `Joins`."""
        self._ranks.setdefault(left + right, len(self._ranks))


class PairJoins:
    """Joins of listed pairs, as `tokenizers` makes them.

    Args:
        merges: the pairs by rank.

    Attributes:
        ranks: the rank of each pair.
    """

    def __init__(self, merges: Iterable[tuple[str, str]]) -> None:
        self.ranks = {pair: rank for rank, pair in enumerate(merges)}

    def rank(self, left: str, right: str) -> int:
        """See `Joins`."""
        return self.ranks.get((left, right), _NEVER)

    def add(self, left: str, right: str) -> None:
        """See `Joins`."""
        self.ranks.setdefault((left, right), len(self.ranks))


J = TypeVar("J", bound=Joins)


def complete(
    learnt: Sequence[str], joins_of: Callable[[int], J], required: Sequence[str], room: int, config: TokenizerConfig
) -> tuple[list[str], J]:
    """Return learnt pieces and required ones, as many as there is room for.

    Required pieces come after the learnt ones: a text is first cut as without them, and what is left of a required
    piece is joined from the left. The pieces that this needs in between take ids, too.

    Args:
        learnt: learnt pieces by rank.
        joins_of: returns the joins of so many learnt pieces, the first ones.
        required: required pieces of several symbols.
        room: number of pieces.
        config: the requested configuration, for the error.

    Returns:
        The pieces by rank, and their joins.

    Raises:
        ConfigError: there is no room for the required pieces.
    """
    size = min(len(learnt), room)
    while True:
        joins = joins_of(size)
        added = _add(joins, required, {*learnt[:size]})
        over = size + len(added) - room
        if over <= 0:
            break
        if not size:
            what = f"{over} more ids are needed for the {len(required):,} required pieces"
            fix = f"vocab_size = {config.vocab_size + over} or more, or require fewer pieces"
            setting = Setting("vocab_size", config.vocab_size + over)
            raise ConfigError(what, where="tokenizer.vocab_size", fix=fix, setting=setting)
        size = max(0, size - over)
    chosen = [*learnt[:size], *added]
    return chosen + _fill(joins, learnt[size:], {*chosen}, room - len(chosen)), joins


def _add(joins: Joins, required: Iterable[str], known: set[str]) -> list[str]:
    """Add the joins that form the required pieces; return the pieces that are not known yet."""
    added = dict[str, None]()
    for piece in required:
        while len(parts := merged(piece, joins)) > 1:
            joins.add(parts[0], parts[1])
            joined = parts[0] + parts[1]
            added |= {} if joined in known else {joined: None}
    return list(added)


def _fill(joins: Joins, pieces: Iterable[str], known: set[str], room: int) -> list[str]:
    """Return further learnt pieces that a single join forms after all others, and add these joins."""
    filled: list[str] = []
    for piece in pieces:
        if len(filled) == room:
            break
        parts = merged(piece, joins)
        if len(parts) == 2 and piece not in known:
            joins.add(*parts)
            filled.append(piece)
    return filled


def merged(text: str, joins: Joins, least: int = 1) -> list[str]:
    """Return the symbols of a text after all joins: the first in rank, of equal ones the leftmost.

    Args:
        text: the text.
        joins: the joins.
        least: stop once so few symbols are left.
    """
    parts = list(text)
    while len(parts) > least:
        ranks = [joins.rank(left, right) for left, right in pairwise(parts)]
        if (best := min(ranks)) == _NEVER:
            break
        at = ranks.index(best)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts
