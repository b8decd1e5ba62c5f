"""Encoders of many texts at once: normalised texts in, arrays of ids out."""

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
from jprep.tokenizer.formats.policies import respaced
from jprep.tokenizer.vocabulary import DOUBLE_HASH

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


class EncodedBatch(NamedTuple):
    """The ids of many texts, one behind the other.

    Attributes:
        ids: int32, (tokens,).
        offsets: int64, (texts + 1,): text i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: Ids
    offsets: Offsets


GrowingArray = TypeVar("GrowingArray", Ids, Offsets)
BatchEncoder = Callable[[Sequence[str]], EncodedBatch]

_KEPT_WORDS = 1_000_000


def cumulative_offsets(lengths: Iterable[int] | Offsets) -> Offsets:
    """Where each of some runs begins, and where the last one ends."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def _joined(arrays: Sequence[Ids]) -> Ids:
    return np.concatenate(arrays) if arrays else np.zeros(0, np.int32)


class SentencePieceEncoder:
    """BPE and Unigram by sentencepiece. Texts are joined and cut again at newlines, which are in no piece.

    Args:
        model: the path of a `spm.model`.
        newline: the id of the newline's byte.
        most: characters that sentencepiece is given at a time, where no line is longer. A call costs as much as some
            fifty characters. Unigram's scores are added up in 32 bits: their sums are exact while they are small, and
            the ids of one text do not depend on those before it.
    """

    def __init__(self, model: Path, newline: int, most: int) -> None:
        self._model, self._newline, self._most = _sentencepiece(model), newline, most

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts that may hold newlines."""
        if not texts:
            return EncodedBatch(np.zeros(0, np.int32), np.zeros(1, np.int64))
        ids = _joined(self._model.encode(_blocks("\n".join(texts), self._most), return_type="numpy", num_threads=1))
        newlines = (ids == self._newline).nonzero()[0]
        if len(newlines) >= len(texts):  # some stand within texts
            newlines = newlines[np.cumsum([text.count("\n") + 1 for text in texts[:-1]], dtype=np.int64) - 1]
        ends = np.append(newlines, len(ids))
        return EncodedBatch(np.delete(ids, newlines), np.concatenate([[0], ends - np.arange(len(ends))]))


def _blocks(text: str, most: int) -> list[str]:
    blocks, start = [], 0
    while start < len(text):
        end = text.rfind("\n", start, start + most) + 1 or text.find("\n", start + most) + 1 or len(text)
        blocks.append(text[start:end])
        start = end
    return blocks


def _sentencepiece(model: Path) -> Any:
    from sentencepiece import SentencePieceProcessor

    return SentencePieceProcessor(model_proto=model.read_bytes())


class TokenizersEncoder:
    """Any model by `tokenizers`.

    Args:
        served: what it loads.
    """

    def __init__(self, served: dict[str, Any]) -> None:
        import msgspec
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_str(msgspec.json.encode(served).decode())

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode texts."""
        encodings = self._tokenizer.encode_batch_fast(list(texts), add_special_tokens=False)
        parts = [encoding.ids for encoding in encodings]
        ids = np.fromiter((number for part in parts for number in part), np.int32)
        return EncodedBatch(ids, cumulative_offsets(map(len, parts)))


class WordEncoder:
    """Under hard boundaries: marked text, whose words are encoded once each.

    Args:
        encoder: encodes words.
        config: the policies of spaces, digits and newlines.
        space: what the model sees for a space.
    """

    def __init__(self, encoder: BatchEncoder, config: TokenizerConfig, space: str) -> None:
        self._encoder, self._config, self._space = encoder, config, space
        self._replaced = [(re.compile(pattern), to) for pattern, to in respaced(config, space)]
        alone = f"|{space}+" if config.spaces == "alone" else ""
        digits = f"|[{DIGITS}]" if config.digits == "split" else ""
        signs = f"|{DOUBLE_HASH}" if config.model == "wordpiece" else ""
        self._cut = re.compile(f"[{SENTENCE}{WORD}]+|(\n{alone}{digits}{signs})")
        self._lock = threading.Lock()
        self._forget()

    def _forget(self) -> None:
        self._numbers: dict[str, int] = {}
        self._ids: Ids = np.zeros(0, np.int32)
        self._offsets: Offsets = np.zeros(1, np.int64)

    def __call__(self, texts: Sequence[str]) -> EncodedBatch:
        """Encode marked texts."""
        units = [self._units(text) for text in texts]
        flat = [unit for text in units for unit in text]
        with self._lock:
            self._learn(flat)
            numbers = np.fromiter(map(self._numbers.__getitem__, flat), np.int64, len(flat))
            starts, stops, ids = self._offsets[numbers], self._offsets[numbers + 1], self._ids
        lengths = stops - starts
        ends = cumulative_offsets(lengths)
        places = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
        return EncodedBatch(ids[places], ends[cumulative_offsets(map(len, units))])

    def _units(self, text: str) -> list[str]:
        text = text.replace(" ", self._space)
        if self._config.newline == "space":
            text = text.replace("\n", self._space)
        for pattern, to in self._replaced:
            text = pattern.sub(to, text)
        return [unit for unit in self._cut.split(text) if unit]

    def _learn(self, units: list[str]) -> None:
        if len(self._numbers) > _KEPT_WORDS:
            self._forget()
        fresh = [unit for unit in dict.fromkeys(units) if unit not in self._numbers]
        if fresh:
            ids, offsets = self._encoder(fresh)
            known = len(self._numbers)
            used = int(self._offsets[known])
            self._offsets = _with_room(self._offsets, known + len(fresh) + 1)
            self._offsets[known + 1 : known + len(fresh) + 1] = offsets[1:] + used
            self._ids = _with_room(self._ids, used + len(ids))
            self._ids[used : used + len(ids)] = ids
            self._numbers.update(zip(fresh, range(known, known + len(fresh)), strict=True))


def _with_room(array: GrowingArray, size: int) -> GrowingArray:
    """The array, or one at least twice as long that begins as it does: growing one by one costs little."""
    if size <= len(array):
        return array
    longer = np.zeros(max(size, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer
