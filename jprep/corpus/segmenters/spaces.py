"""Words that are given: text that has spaces between its words already."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.library_segmenter import unsupported_reason
from jprep.corpus.step import Segmenter

WHITE_SPACE = "\t\n\v\f\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
"""Unicode's white space (property White_Space), for a regular expression's character class."""

_SPACE = re.compile(f"([{WHITE_SPACE}])")


class SpacesSegmenter(Segmenter):
    """Takes the spaces of the text as word boundaries, for text that was segmented before.

    Any white space of Unicode counts, also the ideographic space (U+3000), as in `fairseq-preprocess` and `str.split`.
    The spaces stay in the text, each as a word of its own, as those of any segmenter do. Use it with normalizers that
    keep spaces: `normalizers = []`, or neologdn with `remove_space = false`.
    """

    name = "spaces"
    version = 1

    def segment(self, texts: Sequence[str]) -> list[str]:
        """Insert U+001F around spaces. A text that holds U+001F or a lone surrogate is counted as `unsegmented`."""
        return [self._segment(text) for text in texts]

    def _segment(self, text: str) -> str:
        if reason := unsupported_reason(text):
            self.tally[f"unsegmented.{reason}"] += 1
            return text
        return WORD.join(filter(None, _SPACE.split(text)))
