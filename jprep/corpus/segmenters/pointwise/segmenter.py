"""The segmenter `pointwise`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.corpus.segmenters.library_segmenter import file_hash, unsupported_reason
from jprep.corpus.segmenters.pointwise.characters import fold_codes, pad_texts
from jprep.corpus.segmenters.pointwise.features import VERSION
from jprep.corpus.segmenters.pointwise.model_file import check_exists, installed_model, read_model
from jprep.corpus.segmenters.pointwise.weights import Weights
from jprep.corpus.step import Segmenter, StepConfig

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROUP = 1 << 20  # characters that are segmented at a time


class Pointwise(Segmenter):
    """Decides about each boundary on its own, by a linear model of the characters and dictionary words around it.

    The weights are integers, so the words are the same on every machine, in every batch. White space and control
    characters are words of their own.
    """

    name = "pointwise"
    version = VERSION
    local = frozenset({"model"})

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            model: path of a model made by `jprep segmenter train`; "" uses the model of an installed distribution.
        """

        model: str = ""

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._path = Path(self.config.model).expanduser() if self.config.model else installed_model()

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between words. A text that holds U+001F or a lone surrogate is counted as `unsegmented`."""
        marked = list(texts)
        for group in _groups(texts):
            chosen = [texts[number] for number in group]
            if not _all_supported(chosen):
                group = [number for number in group if self._supported(texts[number])]
                chosen = [texts[number] for number in group]
            for number, words in zip(group, _mark(chosen, self._weights) if chosen else (), strict=True):
                marked[number] = words
        return marked

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model.

        Raises:
            ConfigError: there is no such model.
        """
        check_exists(self._path)
        return {"model": file_hash(self._path)}

    def _supported(self, text: str) -> bool:
        """Return whether a text can be segmented; count it otherwise."""
        reason = unsupported_reason(text)
        if reason:
            self.tally[f"unsegmented.{reason}"] += 1
        return not reason

    @cached_property
    def _weights(self) -> Weights:
        return read_model(self._path).weights


def _groups(texts: Sequence[str]) -> Iterator[list[int]]:
    """Yield the numbers of the texts that are not empty, in groups of some size."""
    group, size = list[int](), 0
    for number, text in enumerate(texts):
        if text:
            group.append(number)
            size += len(text)
        if size >= _GROUP:
            yield group
            group, size = [], 0
    yield group


def _all_supported(texts: Sequence[str]) -> bool:
    joined = "".join(texts)
    return not unsupported_reason(joined)


def _mark(texts: Sequence[str], weights: Weights) -> list[str]:
    """Return the texts with U+001F between words."""
    lengths = np.array([len(text) for text in texts], np.int64)
    codes = code_points("".join(texts))
    ends = np.cumsum(lengths)
    begins = find_boundaries(codes, lengths, weights)
    begins[ends - lengths] = False
    places = np.flatnonzero(begins)
    joined = np.insert(codes, places, ord(WORD)).tobytes().decode("utf-32-le")
    stops = (ends + np.searchsorted(places, ends)).tolist()
    return [joined[start:stop] for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


def find_boundaries(codes: NDArray[np.uint32], lengths: NDArray[np.int64], weights: Weights) -> NDArray[np.bool_]:
    """Return whether a word begins at each character of some texts; at the first one of a text, it is undefined.

    Args:
        codes: code points of the texts, one behind the other.
        lengths: characters of each text.
        weights: the model.
    """
    padded, places = pad_texts(fold_codes(codes), lengths)
    found: NDArray[np.bool_] = weights.boundaries(padded)[places]
    return found
