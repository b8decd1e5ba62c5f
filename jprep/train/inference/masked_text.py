"""Texts with masks: the request for the model, and the text with its masks filled."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import regex

from jprep.errors import InputError
from jprep.tokenizer.external.tokenizer import ExternalTokenizer
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.train.exporting.manifest import ModelExportManifest
from jprep.train.inference.protocol import FillMask

MASKS = ("<mask>", "[MASK]")
"""Spellings of a mask that are accepted besides the tokenizer's own."""

_SPACES, _CONTINUES = ("▁", "Ġ"), "##"


def masked_request(
    text: str, tokenizer: Tokenizer, exported: ModelExportManifest, top: int, positions: int
) -> FillMask:
    """Return the request for a text with masks; its ids are those that `AutoTokenizer` gives for the text.

    Args:
        text: raw text, with masks in any accepted spelling.
        tokenizer: the model's tokenizer.
        exported: the manifest of the exported model.
        top: the number of tokens to return for each mask.
        positions: the model's number of positions.

    Raises:
        InputError: there is no mask, or the row is longer than the model's positions.
    """
    special, mask = exported.special, exported.special.mask
    if mask is None or not _mask_pattern(tokenizer).search(text):
        raise InputError(f"the text contains no {tokenizer.special.mask or MASKS[0]}")
    row = [*special.before, *_masked_ids(text, tokenizer, mask), *special.after]
    if len(row) > positions:
        raise InputError(f"the text has {len(row)} tokens, but the model has {positions} positions")
    return FillMask(row, mask, top)


def filled_text(text: str, tokenizer: Tokenizer, tokens: Sequence[tuple[int, str]]) -> str:
    """Return a text with its masks replaced.

    White space before a mask is left out. It stays where tokens are whole words, which have no space of their own, and
    where the token of a tokenizer from elsewhere begins a word.

    Args:
        text: the text.
        tokenizer: the model's tokenizer.
        tokens: id and text of the token for each mask.
    """
    left, whole_words = iter(tokens), tokenizer.card.config.whole_words

    def fill(found: Any) -> str:
        number, token = next(left)
        if whole_words:
            return str(found[1]) + token
        if found[1] and isinstance(tokenizer, ExternalTokenizer) and _begins_word(tokenizer, number):
            return str(found[1]) + token.lstrip()
        return token

    return str(_mask_pattern(tokenizer).sub(fill, text))


def _masked_ids(text: str, tokenizer: Tokenizer, mask: int) -> list[int]:
    """Return the ids of a text with masks, without those around it.

    White space after a mask stays, as in a training row, unless each part is segmented by itself (hard boundaries).

    A tokenizer from elsewhere encodes all of it: only it knows where a text in several parts gets a `▁`.
    """
    if isinstance(tokenizer, ExternalTokenizer):
        return tokenizer.encode_prompt(_spellings(tokenizer).sub(lambda _: tokenizer.piece_of(mask), text))
    pattern, parts, end = _mask_pattern(tokenizer), [], 0
    for one in pattern.finditer(text):
        parts.append(text[end : one.start()])
        end = one.end()
    first, rest = parts[:1], [*parts[1:], text[end:]]
    found: list[int] = tokenizer.encode_batch(first)[0].tolist()
    ids, offsets = tokenizer.encode_after("token", rest)
    for number in range(len(rest)):
        found += [mask, *ids[offsets[number] : offsets[number + 1]].tolist()]
    return found


def _begins_word(tokenizer: Tokenizer, number: int) -> bool:
    """Return whether a token begins a word, as far as its spelling tells."""
    pieces = map(tokenizer.piece_of, range(tokenizer.vocab_size))
    piece, marked = tokenizer.piece_of(number), any(one.startswith(_SPACES) for one in pieces)
    return piece.startswith(_SPACES) if marked else not piece.startswith(_CONTINUES)


def _spellings(tokenizer: Tokenizer) -> Any:
    spellings = sorted({tokenizer.special.mask or MASKS[0], *MASKS})
    return regex.compile("|".join(map(regex.escape, spellings)))


def _mask_pattern(tokenizer: Tokenizer) -> Any:
    """Return a pattern of a mask in any spelling, with the white space before it, as published tokenizers treat it."""
    return regex.compile(rf"(\p{{White_Space}}*)(?:{_spellings(tokenizer).pattern})")
