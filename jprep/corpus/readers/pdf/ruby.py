"""Ruby: small kana beside the characters whose reading they give."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from itertools import takewhile
from operator import attrgetter

from jprep.corpus.readers.pdf.fragments import Fragment

_KANA = re.compile(r"[\u3041-\u309f\u30a0-\u30ff\s]+")
_SMALL = 0.65  # of the size of what it stands beside
_NEAR = 0.6  # distance in sizes of what it stands beside


def without_ruby(fragments: Sequence[Fragment]) -> tuple[list[Fragment], int]:
    """Return the fragments of a page that are not ruby, and the number of characters of ruby."""
    kept, ruby = [], 0
    bases = sorted(fragments, key=attrgetter("top"))
    tops, largest = [base.top for base in bases], max((base.size for base in bases), default=0.0)
    for fragment in fragments:
        near = bases[bisect_left(tops, fragment.bottom - _NEAR * largest) :] if _KANA.fullmatch(fragment.text) else ()
        within = takewhile(lambda base, end=fragment.bottom + _NEAR * largest: base.top <= end, near)  # type: ignore[misc]
        if any(_stands_beside(fragment, base) for base in within):
            ruby += sum(not character.isspace() for character in fragment.text)
        else:
            kept.append(fragment)
    return kept, ruby


def _stands_beside(small: Fragment, base: Fragment) -> bool:
    """Return whether a fragment stands over another one, or to the right of it in vertical writing."""
    if small.size > _SMALL * base.size or abs(base.top - small.bottom) > _NEAR * base.size:
        return False
    return base.start - base.size < (small.start + small.end) / 2 < base.end + base.size
