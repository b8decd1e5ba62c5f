"""Transfer a model to another vocabulary: each new row begins as the mean of the rows of its old pieces.

The rule is that of fast vocabulary transfer (Gee et al. 2022): a token that both vocabularies have keeps its row; any
other begins as the mean of the rows that the old tokenizer encodes its text to. A special token keeps the row of the
old token of the same role. Tokens are compared by what they stand for: `ã` is a byte in the vocabulary of GPT-2, and a
letter elsewhere. A token without any old piece is initialized from the seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

import numpy as np

from jprep.io.safetensors_file import Floats
from jprep.tokenizer.formats.pieces import fallback_byte
from jprep.train.pretrained.piece_texts import PieceText, piece_texts, spelling_of
from jprep.train.pretrained.stored_tensors import StoredTensor

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

RowSources = Sequence[Sequence[int]]
"""For each id, the old ids whose rows are averaged; none for a row from the seed."""

_BY_TOKEN = (
    "embeddings.word_embeddings.weight", "wte.weight", "embed_tokens.weight", "lm_head.weight", "cls.predictions.bias",
    "lm_head.bias", "generator_lm_head.bias", "embeddings.tok_embeddings.weight", "decoder.bias",
)  # fmt: skip
_EAST_ASIAN = "\u2e80"  # the first character of the scripts that have no spaces between words
_ROLES = ("eos", "sep", "cls", "bos", "mask", "pad", "unk")
"""Roles of special tokens; the first that a token has in both tokenizers decides."""


def row_sources(old: Tokenizer, new: Tokenizer) -> RowSources:
    """Return the old ids for each id of a new tokenizer.

    Args:
        old: the tokenizer of the given weights.
        new: the job's tokenizer.
    """
    roles, same = _roles(old, new), _same_tokens(old, new)
    by_data = _ids_by_data(old)
    texts = piece_texts(new)
    spaced = {text for text in texts if _follows_space(text, old)}
    encoded = _encoded(old, texts, spaced, by_data.get(b" "))
    special = set(new.special.tokens)
    found: list[list[int]] = []
    for number, text in enumerate(texts):
        piece = new.piece_of(number)
        if piece in roles:
            found.append([roles[piece]])
        elif number in same:
            found.append([same[number]])
        elif piece in special:
            found.append([])
        elif text in spaced and (data := b" " + text.data) in by_data:
            found.append([by_data[data]])
        elif text.data in by_data:
            found.append([by_data[text.data]])
        else:
            found.append(encoded[number] or _byte_ids(text.data, by_data))
    return found


def _same_tokens(old: Tokenizer, new: Tokenizer) -> dict[int, int]:
    """Return the old id for each new id whose piece both tokenizers spell, if it means the same in both."""
    pieces = {old.piece_of(number): number for number in range(old.vocab_size)}
    alike = spelling_of(old) == spelling_of(new) or _extends(old, new)
    special = set(new.special.tokens) & set(old.special.tokens)
    shared = ((number, new.piece_of(number)) for number in range(new.vocab_size))
    return {number: pieces[piece] for number, piece in shared if piece in pieces and (alike or piece in special)}


def _extends(old: Tokenizer, new: Tokenizer) -> bool:
    """Return whether a tokenizer has all pieces of another at their ids, as a copy from another program can."""
    return old.vocab_size <= new.vocab_size and all(
        old.piece_of(number) == new.piece_of(number) for number in range(old.vocab_size)
    )


def _ids_by_data(old: Tokenizer) -> dict[bytes, int]:
    """Return the old id for what a piece stands for; a piece of characters comes before one of byte fallback.

    Of several, the first. None for a WordPiece, which has two pieces for the same characters: it encodes them.
    """
    if spelling_of(old) in ("wordpiece", "spaced wordpiece"):
        return {}
    special, texts = set(old.special.tokens), piece_texts(old)
    ids = [number for number in range(old.vocab_size) if old.piece_of(number) not in special and texts[number].data]
    ids.sort(key=lambda number: (fallback_byte(old.piece_of(number)) != b"", number), reverse=True)
    return {texts[number].data: number for number in ids}  # the last one stays


def _byte_ids(data: bytes, by_data: Mapping[bytes, int]) -> list[int]:
    """Return the old ids of bytes that are no text by themselves; none if the old tokenizer lacks one of them."""
    ids = [by_data.get(data[place : place + 1]) for place in range(len(data))]
    return [one for one in ids if one is not None] if None not in ids else []


def _follows_space(text: PieceText, old: Tokenizer) -> bool:
    """Return whether the old tokenizer sees a space before a word: between Latin words, or between all of them."""
    first = text.data.decode(errors="ignore")[:1]
    return text.begins_word and (old.card.config.boundaries == "spaces" or (first.isalnum() and first < _EAST_ASIAN))


def _encoded(old: Tokenizer, texts: Sequence[PieceText], spaced: Set[PieceText], space: int | None) -> list[list[int]]:
    """Return the old ids of each text inside of a sentence, without unknown ones.

    Args:
        old: the old tokenizer.
        texts: the texts.
        spaced: those with a space before them.
        space: the old id of a space alone, which is no part of the word after it; None if there is none.
    """
    found: list[list[int]] = [[] for _ in texts]
    chosen = [number for number, text in enumerate(texts) if _is_text(text.data)]
    words = [f"{' ' * (texts[number] in spaced)}{texts[number].data.decode()}" for number in chosen]
    batch = old.encode_after("text", words)
    for number, (start, end) in zip(chosen, itertools.pairwise(batch.offsets.tolist()), strict=True):
        ids = batch.ids[start:end].tolist()
        alone = texts[number] in spaced and len(ids) > 1 and ids[0] == space
        found[number] = [one for one in ids[alone:] if one != old.unk]
    return found


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def is_by_token(name: str) -> bool:
    """Return whether a tensor has a row for each id."""
    return name.endswith(_BY_TOKEN)


def transfer_rows(name: str, source: StoredTensor, rows: RowSources, fresh: Iterator[Floats]) -> Iterator[Floats]:
    """Yield the rows of a tensor for a new vocabulary.

    Args:
        name: the tensor's name.
        source: the tensor for the old vocabulary.
        rows: from `row_sources`.
        fresh: the values of the new tensor as initialized from the seed, for rows without a source.
    """
    old = source.rows(name)
    new = np.concatenate(list(fresh)).reshape(len(rows), *old.shape[1:])
    for number, sources in enumerate(rows):
        if sources:
            new[number] = old[list(sources)].astype(np.float64).mean(axis=0)
        yield new[number].reshape(-1)


def _roles(old: Tokenizer, new: Tokenizer) -> dict[str, int]:
    """Return the old id for each special token of the new tokenizer that has a role in both.

    Of a token with several roles, such as GPT-2's `<|endoftext|>`, the end of a text is the one that is predicted.
    """
    found: dict[str, int] = {}
    for role in _ROLES:
        before, after = getattr(old.special, role), getattr(new.special, role)
        if before and after:
            found.setdefault(after, old.id_of(before))
    return found
