"""Leave text as it is: each paragraph is one sentence."""

from __future__ import annotations

from jprep.corpus.step import Splitter


class NoSplitter(Splitter):
    """Treats each paragraph as one sentence."""

    name = "none"
    version = 1

    def mark(self, text: str) -> str:
        """Return the text unchanged."""
        return text
