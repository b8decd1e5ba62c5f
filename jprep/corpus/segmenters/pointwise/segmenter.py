"""The segmenter `pointwise`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import numpy as np

from jprep.batching import batches_of
from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.corpus.segmenters.jumanpp import JumanppSegmenter
from jprep.corpus.segmenters.library_segmenter import file_hash, unsupported_reason
from jprep.corpus.segmenters.pointwise.compiled import load_kernel, usable_kernel
from jprep.corpus.segmenters.pointwise.features import VERSION
from jprep.corpus.segmenters.pointwise.marking import mark_codes
from jprep.corpus.segmenters.pointwise.model_file import check_exists, find_model, read_model
from jprep.corpus.segmenters.pointwise.weights import SCALE, Weights
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
    local = frozenset({"model", "jumanpp", "compiled"})

    class Config(StepConfig, frozen=True):
        """Options.

        Attributes:
            model: path of a model made by `jprep segmenter train`, or the name of one that an installed distribution
                brings; "" uses that of `jprep-words`.
            certainty: sentences with a boundary about which the model is less certain than this probability are
                segmented by Juman++ instead; 0.5 needs no Juman++.
            jumanpp: options of the segmenter `jumanpp` for these.
            compiled: whether words are found by compiled code (extra `numba`), which is faster and finds the same:
                `auto` uses it for much text where it works, `on` always, `off` never.
        """

        model: str = ""
        certainty: Annotated[float, msgspec.Meta(ge=0.5, lt=1)] = 0.5
        jumanpp: JumanppSegmenter.Config = JumanppSegmenter.Config()
        compiled: Literal["auto", "on", "off"] = "auto"

    def __init__(self, config: Any = None) -> None:
        super().__init__(config)
        self._path = find_model(self.config.model)
        odds = self.config.certainty / (1 - self.config.certainty)
        self._least_sure = round(math.log(odds) * SCALE)
        self._jumanpp = JumanppSegmenter(self.config.jumanpp) if self._least_sure else None

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F between words. A text that holds U+001F or a lone surrogate is counted as `unsegmented`."""
        marked, doubtful = list(texts), list[int]()
        for group in batches_of(_nonempty(texts), _GROUP, lambda number: len(texts[number])):
            chosen = [texts[number] for number in group]
            codes = _encode(chosen)
            if codes is None:
                group = [number for number in group if self._supported(texts[number])]
                chosen = [texts[number] for number in group]
                codes = code_points("".join(chosen))
            if not group:
                continue
            found, sure = self._mark(codes, np.fromiter(map(len, chosen), np.int64, len(chosen)))
            for number, words in zip(group, found, strict=True):
                marked[number] = words
            if self._least_sure:
                doubtful += [group[n] for n in np.flatnonzero(sure < self._least_sure).tolist()]
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

    def load_compiled(self) -> None:
        """Load the compiled code, and compile it if that was not done on this machine.

        Raises:
            MachineError: it cannot be used.
        """
        load_kernel(self._weights, wait=True)

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

    def _mark(self, codes: NDArray[np.uint32], lengths: NDArray[np.int64]) -> tuple[list[str], NDArray[Any]]:
        """Return texts with U+001F between words, and how sure the least sure boundary of each is."""
        kernel = usable_kernel(self.config.compiled, len(codes), self._weights)
        found = kernel.mark(codes, lengths, self._weights) if kernel else mark_codes(codes, lengths, self._weights)
        joined = str(found.codes.data, "utf-32-le")
        ends = found.ends.tolist()
        return [joined[start:end] for start, end in zip([0, *ends], ends, strict=False)], found.sure

    @cached_property
    def _weights(self) -> Weights:
        check_exists(self._path)
        stat = self._path.stat()
        return _read_weights(self._path, stat.st_size, stat.st_mtime_ns)


@lru_cache(maxsize=2)
def _read_weights(path: Path, size: int, changed: int) -> Weights:
    """Return the weights of a model, which is read once per process and state of the file."""
    return read_model(path).weights


def _describe_cascade(jumanpp: JumanppSegmenter) -> dict[str, str]:
    """Return what the words depend on in Juman++; not where it is, or its limits."""
    described = describe_step(jumanpp)
    options = {"version": described["version"]} | described["config"]
    found = {"cascade": msgspec.json.encode(options, order="sorted").decode()}
    return found | {f"cascade {name}": value for name, value in described["provenance"].items()}


def _nonempty(texts: Sequence[str]) -> Iterator[int]:
    """Yield the numbers of the texts that are not empty."""
    return (number for number, text in enumerate(texts) if text)


def _encode(texts: Sequence[str]) -> NDArray[np.uint32] | None:
    """Return the code points of texts, or None if one is not supported."""
    joined = "".join(texts)
    try:
        return None if WORD in joined else np.frombuffer(joined.encode("utf-32-le"), "<u4")
    except UnicodeEncodeError:
        return None
