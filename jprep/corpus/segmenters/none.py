"""No segmenter: for corpora whose tokenizer wants no word boundaries."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.corpus.step import Segmenter


class NoSegmenter(Segmenter):
    """Leaves every sentence whole."""

    name = "none"
    version = 1
    marks = False

    def segment(self, texts: Sequence[str]) -> list[str]:
        """The texts themselves."""
        return list(texts)
