"""Encode with the library `tokenizers`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jprep.tokenizer.encoding.batch import EncodedBatch, TokenSpans, cumulative_offsets, spans_of


class TokenizersEncoder:
    """Encode with the library `tokenizers`.

    Args:
        tokenizer_json: content of a `tokenizer.json`.
    """

    def __init__(self, tokenizer_json: dict[str, Any]) -> None:
        self._tokenizer = load_for_text(tokenizer_json)

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = [encoding.ids for encoding in encodings]
        ids = np.fromiter((number for part in parts for number in part), np.int32)
        return EncodedBatch(ids, cumulative_offsets(map(len, parts)))

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """Encode texts, and find the characters that each token covers."""
        return spans_of(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))


def load_for_text(tokenizer_json: dict[str, Any]) -> Any:
    """Return a tokenizer of the library `tokenizers` that takes special tokens spelt in a text as text."""
    import msgspec
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_str(msgspec.json.encode(tokenizer_json).decode())
    tokenizer.encode_special_tokens = True
    return tokenizer
