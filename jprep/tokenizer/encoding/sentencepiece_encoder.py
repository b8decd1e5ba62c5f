"""Encode with the library `sentencepiece`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from jprep.tokenizer.encoding.batch import EncodedBatch, Ids


class SentencePieceEncoder:
    """Encode with sentencepiece (BPE and Unigram).

    Texts are joined by newlines, which are in no piece, and the ids are split at newlines again.

    Args:
        model: path of a `spm.model`.
        newline: id of the newline byte.
        max_characters: maximum characters per call of sentencepiece, unless a single line is longer. A call costs as
            much as some fifty characters. Unigram's scores are summed in 32 bits: sums of short inputs are exact, so
            that the ids of a text do not depend on the texts before it.
    """

    def __init__(self, model: Path, newline: int, max_characters: int) -> None:
        self._model, self._newline, self._max_characters = _sentencepiece(model), newline, max_characters

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts, which may contain newlines."""
        if not texts:
            return EncodedBatch(np.zeros(0, np.int32), np.zeros(1, np.int64))
        blocks = _blocks("\n".join(texts), self._max_characters)
        ids = _concatenate(self._model.encode(blocks, return_type="numpy", num_threads=1))
        newlines = (ids == self._newline).nonzero()[0]
        if len(newlines) >= len(texts):  # some are inside texts
            newlines = newlines[np.cumsum([text.count("\n") + 1 for text in texts[:-1]], dtype=np.int64) - 1]
        ends = np.append(newlines, len(ids))
        return EncodedBatch(np.delete(ids, newlines), np.concatenate([[0], ends - np.arange(len(ends))]))


def _blocks(text: str, max_characters: int) -> list[str]:
    blocks, start = [], 0
    while start < len(text):
        limit = start + max_characters
        end = text.rfind("\n", start, limit) + 1 or text.find("\n", limit) + 1 or len(text)
        blocks.append(text[start:end])
        start = end
    return blocks


def _sentencepiece(model: Path) -> Any:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model.read_bytes())


def _concatenate(arrays: Sequence[Ids]) -> Ids:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)
