"""The ids of special tokens, as samples need them."""

from __future__ import annotations

from typing import Protocol

import msgspec

from jprep.tokenizer.special_tokens import SpecialTokens


class VocabularyLike(Protocol):
    """What is needed of a tokenizer; `jprep.load_tokenizer` gives one."""

    special: SpecialTokens

    @property
    def vocab_size(self) -> int:
        """All ids."""

    def id_of(self, piece: str) -> int:
        """The id of a piece."""


class SpecialIds(msgspec.Struct, frozen=True, kw_only=True):
    """What stands around samples.

    Attributes:
        before, after: ids around one text.
        between: ids between two texts.
        pair_after: ids after the second of two texts.
        pad: fills rows up; 0 where there is no token for it, for what is padded is never looked at.
        mask: what stands for a hidden token; None where there is none.
        special: all special ids, in order.
        vocab_size: how many ids there are.
        types: whether the model tells the second of two texts by token types, as BERT does.
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
        """How many tokens one text is given."""
        return len(self.before) + len(self.after)

    @property
    def around_pair(self) -> int:
        """How many tokens two texts are given."""
        return len(self.before) + len(self.between) + len(self.pair_after)


def special_ids(tokenizer: VocabularyLike) -> SpecialIds:
    """The ids of a tokenizer's special tokens."""
    from jprep.tokenizer.formats.tokenizer_json import (
        uses_token_types,  # it takes long to import, and samplers do without
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
    """The special ids around the rows of a task.

    A `clm` row of `stream` or `complete` is cut from running text, in which each document has its own end: what would
    begin and end a text is left out, for most rows begin and end within a document.
    """
    if task != "clm" or packing == "line":
        return special
    return msgspec.structs.replace(special, before=(), after=())
