"""Read the records of a finished corpus again from its inputs, to show what became of them."""

from __future__ import annotations

from jprep.corpus.originals.reading import LIMIT, Originals
from jprep.corpus.originals.records import FilterResult, Original, Reason, Unavailable

__all__ = ["LIMIT", "FilterResult", "Original", "Originals", "Reason", "Unavailable"]
