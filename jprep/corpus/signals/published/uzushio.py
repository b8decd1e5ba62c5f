"""Signals of Uzushio, by the definitions of its filters, where a line is a paragraph. Cheap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.published.swallow import ratio
from jprep.corpus.step import Signal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.signals.batch import TextBatch

_HIRAGANA = (0x3040, 0x309F)  # the whole block, with its marks and what is not assigned
_FIRST_PLANE = 0xFFFF


class UzushioSignals(Signal):
    """Length and hiragana in UTF-16 code units, of which emoji and rare kanji have two; line feeds do not count.

    Columns: `uzushio_length`; `uzushio_hiragana_share`, 0 of nothing.
    """

    name = "uzushio"
    version = 1

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of what is measured."""
        return ("uzushio_length", "uzushio_hiragana_share")

    def measure(self, batch: TextBatch) -> Mapping[str, NDArray[np.float64]]:
        """Return each column for all documents of a batch."""
        codes = batch.codes
        units = batch.sums((codes != ord("\n")) * (1 + (codes > _FIRST_PLANE)))
        hiragana = batch.sums((codes >= _HIRAGANA[0]) & (codes <= _HIRAGANA[1]))
        return {"uzushio_length": units, "uzushio_hiragana_share": ratio(hiragana, units)}
