"""The signal `language`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.language.model import NAMES, shipped_model
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class LanguageSignal(Signal):
    """Whether a text is Japanese, Chinese, Korean, mojibake, machine junk or something else.

    Columns: the probability of each, from 0 to 1; together they are 1. They do not apply to an empty text.
    """

    name = "language"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return tuple(f"{name}_score" for name in NAMES)

    def provenance(self) -> dict[str, str]:
        """Return the hash of the model."""
        return {"model": shipped_model()[1]}

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        scores = shipped_model()[0].scores(batch.codes, batch.starts)
        return dict(zip(self.columns, scores.T, strict=True))
