"""The ids of special tokens that samples need."""

from __future__ import annotations

from typing import Protocol

import msgspec

from jprep.tokenizer.special_tokens import SpecialTokens


class VocabularyLike(Protocol):
    """The part of a tokenizer's interface that is needed; `jprep.load_tokenizer` returns one."""

    special: SpecialTokens

    @property
    def vocab_size(self) -> int:
        """Number of ids."""

    def id_of(self, piece: str) -> int:
        """Return the id of a piece."""


class SpecialIds(msgspec.Struct, frozen=True, kw_only=True):
    """The special tokens around samples.

    Attributes:
        before, after: ids around a single text.
        between: ids between two texts.
        pair_after: ids after the second of two texts.
        pad: padding id; 0 if there is no padding token, as padding is always masked out.
        mask: id of the mask token; None if there is none.
        special: all special ids, ascending.
        vocab_size: number of ids.
        types: whether the model uses token types to distinguish the second of two texts, as BERT does.
    """

    before: tuple[int, ...] = ()
    after: tuple[int, ...] = ()
    between: tuple[int, ...] = ()
    pair_after: tuple[int, ...] = ()
    pad: int = 0
    mask: int | None = None
    special: tuple[int, ...] = ()
    vocab_size: int
    types: bool = False

    @property
    def around(self) -> int:
        """Number of special tokens around one text."""
        return len(self.before) + len(self.after)

    @property
    def around_pair(self) -> int:
        """Number of special tokens around two texts."""
        return len(self.before) + len(self.between) + len(self.pair_after)


def special_ids(tokenizer: VocabularyLike) -> SpecialIds:
    """Return the ids of a tokenizer's special tokens."""
    from jprep.tokenizer.formats.tokenizer_json import (
        uses_token_types,  # slow to import, and not needed by samplers
    )

    tokens = tokenizer.special

    def ids(pieces: tuple[str, ...]) -> tuple[int, ...]:
        return tuple(tokenizer.id_of(piece) for piece in pieces)

    return SpecialIds(
        before=ids(tokens.before),
        after=ids(tokens.after),
        between=ids(tokens.between),
        pair_after=ids(tokens.pair_after),
        pad=tokenizer.id_of(tokens.pad) if tokens.pad else 0,
        mask=tokenizer.id_of(tokens.mask) if tokens.mask else None,
        special=tuple(sorted(ids(tokens.tokens))),
        vocab_size=tokenizer.vocab_size,
        types=uses_token_types(tokens),
    )


def special_ids_for_task(special: SpecialIds, task: str, packing: str) -> SpecialIds:
    """Return the special ids around the rows of a task.

    Rows of `clm` are made of running text in which each document has its own end-of-document token, unless each is a
    paragraph. They get no special tokens around them, because most begin and end inside a document.
    """
    if task != "clm" or packing == "line":
        return special
    return msgspec.structs.replace(special, before=(), after=())
