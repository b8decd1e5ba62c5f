"""Encode many normalised texts at once into arrays of ids."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from jprep.corpus.document import SENTENCE, WORD
from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.formats.policies import space_substitutions
from jprep.tokenizer.vocabulary import DOUBLE_HASH

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


class EncodedBatch(NamedTuple):
    """The ids of many texts, concatenated.

    Attributes:
        ids: int32, (tokens,).
        offsets: int64, (texts + 1,): text i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: Ids
    offsets: Offsets


class TokenSpans(NamedTuple):
    """Encoded texts, with the characters of its text that each token covers.

    Attributes:
        ids: ids of all texts, concatenated, int32, (tokens,).
        offsets: text i is `ids[offsets[i]:offsets[i + 1]]`, (texts + 1,).
        starts: index of a token's first character in its text, (tokens,).
        ends: index after its last character, (tokens,).
    """

    ids: Any
    offsets: Offsets
    starts: Offsets
    ends: Offsets


GrowingArray = TypeVar("GrowingArray", Ids, Offsets)
BatchEncoder = Callable[[Sequence[str]], EncodedBatch]

_MAX_CACHED_WORDS = 1_000_000


def cumulative_offsets(lengths: Iterable[int] | Offsets) -> Offsets:
    """Return the start of each of several consecutive ranges, and the end of the last one."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _concatenate(arrays: Sequence[Ids]) -> Ids:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


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


class TokenizersEncoder:
    """Encode with the library `tokenizers`.

    Args:
        tokenizer_json: content of a `tokenizer.json`.
    """

    def __init__(self, tokenizer_json: dict[str, Any]) -> None:
        import msgspec
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(msgspec.json.encode(tokenizer_json).decode())

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = [encoding.ids for encoding in encodings]
        ids = np.fromiter((number for part in parts for number in part), np.int32)
        return EncodedBatch(ids, cumulative_offsets(map(len, parts)))

    def encode_with_spans(self, texts: Sequence[str]) -> TokenSpans:
        """Encode texts, and find the characters that each token covers."""
        return spans_of(self._tokenizer.encode_batch(list(texts), add_special_tokens=False))


def spans_of(encodings: Sequence[Any]) -> TokenSpans:
    """Return encodings of the library `tokenizers` as arrays."""
    offsets = cumulative_offsets(len(each.ids) for each in encodings)
    ids = np.fromiter((number for each in encodings for number in each.ids), np.int32, int(offsets[-1]))
    flat = (place for each in encodings for span in each.offsets for place in span)
    spans = np.fromiter(flat, np.int64, 2 * len(ids)).reshape(-1, 2)
    return TokenSpans(ids, offsets, spans[:, 0], spans[:, 1])


class WordEncoder:
    """Encode marked text under hard boundaries. Each distinct word is encoded once and cached.

    Args:
        encoder: encodes words.
        config: policies for spaces, digits and newlines.
        space: the model's character for a space.
    """

    def __init__(self, encoder: BatchEncoder, config: TokenizerConfig, space: str) -> None:
        self._encoder, self._config, self._space = encoder, config, space
        self._replaced = [(re.compile(pattern), to) for pattern, to in space_substitutions(config, space)]
        spaces = f"|{space}+" if config.spaces == "alone" else ""
        digits = f"|[{DIGITS}]" if config.digits == "split" else ""
        double_hash = f"|{DOUBLE_HASH}" if config.model == "wordpiece" else ""
        self._cut = re.compile(f"[{SENTENCE}{WORD}]+|(\n{spaces}{digits}{double_hash})")
        self._lock = threading.Lock()
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids: Ids = np.zeros(0, np.int32)
        self._offsets: Offsets = np.zeros(1, np.int64)

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode marked texts."""
        units = [self._units(text) for text in texts]
        flat = [unit for text in units for unit in text]
        with self._lock:
            self._add_to_cache(flat)
            numbers = np.fromiter(map(self._numbers.__getitem__, flat), np.int64, len(flat))
            starts, stops, ids = self._offsets[numbers], self._offsets[numbers + 1], self._ids
        lengths = stops - starts
        ends = cumulative_offsets(lengths)
        indices = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
        return EncodedBatch(ids[indices], ends[cumulative_offsets(map(len, units))])

    def _units(self, text: str) -> list[str]:
        text = text.replace(" ", self._space)
        if self._config.newline == "space":
            text = text.replace("\n", self._space)
        for pattern, to in self._replaced:
            text = pattern.sub(to, text)
        return [unit for unit in self._cut.split(text) if unit]

    def _add_to_cache(self, units: list[str]) -> None:
        if len(self._numbers) > _MAX_CACHED_WORDS:
            self._clear_cache()
        new = [unit for unit in dict.fromkeys(units) if unit not in self._numbers]
        if new:
            ids, offsets = self._encoder(new)
            known = len(self._numbers)
            used = int(self._offsets[known])
            self._offsets = _grown(self._offsets, known + len(new) + 1)
            self._offsets[known + 1 : known + len(new) + 1] = offsets[1:] + used
            self._ids = _grown(self._ids, used + len(ids))
            self._ids[used : used + len(ids)] = ids
            self._numbers.update(zip(new, range(known, known + len(new)), strict=True))


def _grown(array: GrowingArray, size: int) -> GrowingArray:
    """Return the array, or one at least twice as long that begins with it, for amortised constant appends."""
    if size <= len(array):
        return array
    longer = np.zeros(max(size, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
