"""Transfer a model to another vocabulary: each new row begins as the mean of the rows of its old pieces.

The rule is that of fast vocabulary transfer (Gee et al. 2022): a token that both vocabularies have keeps its row; any
other begins as the mean of the rows that the old tokenizer encodes its text to. A special token keeps the row of the
old token of the same role. A token without any old piece is initialized from the seed.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jprep.io.safetensors_file import Floats
from jprep.tokenizer.special_tokens import ROLES
from jprep.train.pretrained.stored_tensors import StoredTensor

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

RowSources = Sequence[Sequence[int]]
"""For each id, the old ids whose rows are averaged; none for a row from the seed."""

_BY_TOKEN = (
    "embeddings.word_embeddings.weight", "wte.weight", "embed_tokens.weight", "lm_head.weight", "cls.predictions.bias",
    "lm_head.bias", "generator_lm_head.bias", "embeddings.tok_embeddings.weight", "decoder.bias",
)  # fmt: skip
_CONTINUES, _SPACE = "##", "▁"


def row_sources(old: Tokenizer, new: Tokenizer) -> RowSources:
    """Return the old ids for each id of a new tokenizer.

    Args:
        old: the tokenizer of the given weights.
        new: the job's tokenizer.
    """
    pieces = {old.piece_of(number): number for number in range(old.vocab_size)}
    roles = _roles(old, new)
    texts = [_text(new, number) for number in range(new.vocab_size)]
    encoded = old.encode_batch(texts)
    parts = [encoded.ids[start:end].tolist() for start, end in itertools.pairwise(encoded.offsets.tolist())]
    special = set(new.special.tokens)
    found: list[list[int]] = []
    for number, split in enumerate(parts):
        piece = new.piece_of(number)
        if piece in roles:
            found.append([roles[piece]])
        elif piece in pieces:
            found.append([pieces[piece]])
        else:
            found.append([] if piece in special else [one for one in split if one != old.unk])
    return found


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
    """Return the old id for each special token of the new tokenizer that has a role in both."""
    found: dict[str, int] = {}
    for role in ROLES:
        before, after = getattr(old.special, role), getattr(new.special, role)
        if before and after:
            found.setdefault(after, old.id_of(before))
    return found


def _text(tokenizer: Tokenizer, number: int) -> str:
    """Return the text that a token stands for, without the marks of its tokenizer."""
    piece = tokenizer.piece_of(number)
    if piece.startswith(_CONTINUES) and len(piece) > len(_CONTINUES):
        return piece.removeprefix(_CONTINUES)
    text = tokenizer.decode([number]) if not piece.startswith(_SPACE) else piece.replace(_SPACE, " ")
    return "" if "\ufffd" in text else text
