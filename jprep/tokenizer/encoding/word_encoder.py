"""Encode text by words, each distinct one once."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence

import numpy as np

from jprep.corpus.document import SENTENCE, WORD
from jprep.tokenizer.config import DIGITS, TokenizerConfig
from jprep.tokenizer.encoding.batch import (
    BatchEncoder,
    EncodedBatch,
    Ids,
    Offsets,
    cumulative_offsets,
    grown,
    indices_of_ranges,
)
from jprep.tokenizer.formats.policies import space_substitutions
from jprep.tokenizer.vocabulary import DOUBLE_HASH

_MAX_CACHED_WORDS = 1_000_000


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
        ends = cumulative_offsets(stops - starts)
        return EncodedBatch(ids[indices_of_ranges(starts, ends)], ends[cumulative_offsets(map(len, units))])

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
            self._offsets = grown(self._offsets, known + len(new) + 1)
            self._offsets[known + 1 : known + len(new) + 1] = offsets[1:] + used
            self._ids = grown(self._ids, used + len(ids))
            self._ids[used : used + len(ids)] = ids
            self._numbers.update(zip(new, range(known, known + len(new)), strict=True))
