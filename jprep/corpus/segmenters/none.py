"""No segmentation: for corpora whose tokenizer needs no word boundaries."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.corpus.step import Segmenter


class NoSegmenter(Segmenter):
    """Keeps every sentence as one word."""

    name = "none"
    version = 1
    marks = False

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Return the texts unchanged."""
        return list(texts)
