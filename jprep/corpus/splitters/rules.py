"""Split Japanese text by rules: end marks, brackets, and words that continue a sentence."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate, pairwise

from jprep.corpus.document import SENTENCE
from jprep.corpus.splitters.lines import find_ends
from jprep.corpus.step import Splitter

_MANY = 1 << 15  # characters from which on arrays are faster than regular expressions


class RuleSplitter(Splitter):
    """Splits text by rules. Neither sentences nor pairs of brackets continue across lines."""

    name = "rules"
    version = 2

    def mark(self, text: str) -> str:
        """Insert U+001E between the sentences of each line. White space after a sentence belongs to it."""
        ends = _ends(text)
        return SENTENCE.join(_cut(text, ends)) if ends else text

    def mark_all(self, texts: Sequence[str]) -> list[str]:
        """See `Splitter.mark_all`. Lines are independent of each other, so texts are marked together."""
        joined = "\n".join(texts)
        ends = _ends(joined)
        if not ends:
            return list(texts)
        marked, begins = SENTENCE.join(_cut(joined, ends)), accumulate((len(text) + 1 for text in texts), initial=0)
        places = [begin + bisect_left(ends, begin) for begin in begins]
        return [marked[start : behind - 1] for start, behind in pairwise(places)]


def _ends(text: str) -> list[int]:
    """Return the offsets at which sentences end, except ends of lines."""
    if len(text) < _MANY:
        return find_ends(text)
    from jprep.corpus.splitters import arrays  # numpy is loaded when it is needed

    ends: list[int] = arrays.find_ends(text).tolist()
    return ends


def _cut(text: str, ends: list[int]) -> list[str]:
    return [text[start:end] for start, end in pairwise([0, *ends, len(text)])]
