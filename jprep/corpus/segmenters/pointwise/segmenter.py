"""The segmenter `pointwise`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import numpy as np

from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.corpus.segmenters.jumanpp import JumanppSegmenter
from jprep.corpus.segmenters.library_segmenter import file_hash, unsupported_reason
from jprep.corpus.segmenters.pointwise.characters import fold_codes, pad_texts
from jprep.corpus.segmenters.pointwise.features import VERSION
from jprep.corpus.segmenters.pointwise.model_file import check_exists, installed_model, read_model
from jprep.corpus.segmenters.pointwise.weights import CERTAIN, SCALE, Weights
from jprep.corpus.step import Segmenter, StepConfig, describe_step

if TYPE_CHECKING:
    from numpy.typing import NDArray

_GROUP = 1 << 20  # characters that are segmented at a time


class Pointwise(Segmenter):
    """Decides about each boundary on its own, by a linear model of the characters and dictionary words around it.

    The weights are integers, so the words are the same on every machine, in every batch. White space and control
    characters are words of their own. With `certainty`, sentences in doubt go to Juman++: they are counted as
    `cascaded`, and as `cascaded.failed` if it fails, where the model's own words are kept.
    """

    name = "pointwise"
    version = VERSION
    local = frozenset({"model", "jumanpp"})

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            model: path of a model made by `jprep segmenter train`; "" uses the model of an installed distribution.
            certainty: sentences with a boundary about which the model is less certain than this probability are
                segmented by Juman++ instead; 0.5 needs no Juman++.
            jumanpp: options of the segmenter `jumanpp` for these.
        """

        model: str = ""
        certainty: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.5
        jumanpp: JumanppSegmenter.Config = JumanppSegmenter.Config()

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._path = Path(self.config.model).expanduser() if self.config.model else installed_model()
        odds = self.config.certainty / (1 - self.config.certainty)
        self._least_sure = round(math.log(odds) * SCALE)
        self._jumanpp = JumanppSegmenter(self.config.jumanpp) if self._least_sure else None

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between words. A text that holds U+001F or a lone surrogate is counted as `unsegmented`."""
        marked, doubtful = list(texts), list[int]()
        for group in _groups(texts):
            chosen = [texts[number] for number in group]
            if not _all_supported(chosen):
                group = [number for number in group if self._supported(texts[number])]
                chosen = [texts[number] for number in group]
            found = _mark(chosen, self._weights) if chosen else ()
            for number, (words, sure) in zip(group, found, strict=True):
                marked[number] = words
                if sure < self._least_sure:
                    doubtful.append(number)
        self._ask_jumanpp(texts, doubtful, marked)
        return marked

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model and, if Juman++ may be asked, its options, version and the hashes of its files.

        Raises:
            ConfigError: there is no such model.
            MachineError: Juman++ does not work.
        """
        check_exists(self._path)
        return {"model": file_hash(self._path)} | (_describe_cascade(self._jumanpp) if self._jumanpp else {})

    def close(self) -> None:
        """Stop Juman++."""
        if self._jumanpp:
            self._jumanpp.close()

    def _ask_jumanpp(self, texts: Sequence[str], doubtful: Sequence[int], marked: list[str]) -> None:
        """Replace the words of sentences in doubt by those of Juman++, except where it fails."""
        if not (self._jumanpp and doubtful):
            return
        answers = self._jumanpp.try_segment([texts[number] for number in doubtful])
        self.tally["cascaded"] += len(doubtful)
        if failed := answers.count(None):
            self.tally["cascaded.failed"] += failed
        for number, words in zip(doubtful, answers, strict=True):
            if words is not None:
                marked[number] = words

    def _supported(self, text: str) -> bool:
        """Return whether a text can be segmented; count it otherwise."""
        reason = unsupported_reason(text)
        if reason:
            self.tally[f"unsegmented.{reason}"] += 1
        return not reason

    @cached_property
    def _weights(self) -> Weights:
        return read_model(self._path).weights


def _describe_cascade(jumanpp: JumanppSegmenter) -> dict[str, str]:
    """Return what the words depend on in Juman++; not where it is, or its limits."""
    described = describe_step(jumanpp)
    options = {"version": described["version"]} | described["config"]
    found = {"cascade": msgspec.json.encode(options, order="sorted").decode()}
    return found | {f"cascade {name}": value for name, value in described["provenance"].items()}


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


def _mark(texts: Sequence[str], weights: Weights) -> Iterator[tuple[str, int]]:
    """Yield each text, none of which is empty, with U+001F between words, and how sure its least sure boundary is."""
    lengths = np.array([len(text) for text in texts], np.int64)
    codes = code_points("".join(texts))
    ends = np.cumsum(lengths)
    begins, sure = find_boundaries(codes, lengths, weights)
    begins[ends - lengths] = False
    sure[ends - lengths] = CERTAIN
    places = np.flatnonzero(begins)
    joined = np.insert(codes, places, ord(WORD)).tobytes().decode("utf-32-le")
    stops = (ends + np.searchsorted(places, ends)).tolist()
    least = np.minimum.reduceat(sure, ends - lengths).tolist()
    for start, stop, each in zip([0, *stops[:-1]], stops, least, strict=True):
        yield joined[start:stop], each


def find_boundaries(
    codes: NDArray[np.uint32], lengths: NDArray[np.int64], weights: Weights
) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
    """Return whether a word begins at each character of some texts, and how sure that is; see `Weights.decide`.

    Both are undefined at the first character of a text.

    Args:
        codes: code points of the texts, one behind the other.
        lengths: characters of each text.
        weights: the model.
    """
    padded, places = pad_texts(fold_codes(codes), lengths)
    found, sure = weights.decide(padded)
    return found[places], sure[places]
