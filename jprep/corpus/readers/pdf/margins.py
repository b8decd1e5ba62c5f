"""Running headers, running footers and page numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from jprep.corpus.readers.pdf.fragments import Fragment, Writing

_MARGIN = 0.12  # of the page's height
_REPEATED = 3  # pages with the same text at the same place
_GRID = 6.0  # points: places that differ by less are the same
_DIGITS = re.compile(r"[0-9０-９〇一二三四五六七八九十百]+")
_NUMBER = re.compile(
    r"[-–—―‐－〜~・\s(（\[]*(?:[pP]\.?\s*)?[0-9０-９]{1,4}(?:\s*[/／]\s*[0-9０-９]{1,4})?[-–—―‐－〜~・\s)）\]]*"
)


class PageFragments(NamedTuple):
    """The fragments of a page.

    Attributes:
        fragments: in no order.
        writing: how the page is written.
        height: height of the page in points.
    """

    fragments: Sequence[Fragment]
    writing: Writing
    height: float


def without_margins(pages: Sequence[PageFragments]) -> tuple[list[list[Fragment]], int]:
    """Return the fragments of each page without headers, footers and page numbers, and how many those were.

    In the margins (12 % of the height at the top and at the bottom), a number alone is a page number, and a text is
    a header or footer if three pages have it at the same place. Numbers inside it may differ.
    """
    counts = Counter(
        key for page in pages for key in {_key(each, page) for each in page.fragments if _in_margin(each, page)}
    )
    kept = [[each for each in page.fragments if not _is_running(each, page, counts)] for page in pages]
    return kept, sum(len(page.fragments) for page in pages) - sum(map(len, kept))


def _in_margin(fragment: Fragment, page: PageFragments) -> bool:
    top, bottom = _height_range(fragment, page)
    return bottom < page.height * _MARGIN or top > page.height * (1 - _MARGIN)


def _is_running(fragment: Fragment, page: PageFragments, counts: Counter[tuple[str, int]]) -> bool:
    if not _in_margin(fragment, page):
        return False
    return _NUMBER.fullmatch(fragment.text) is not None or counts[_key(fragment, page)] >= _REPEATED


def _key(fragment: Fragment, page: PageFragments) -> tuple[str, int]:
    return _DIGITS.sub("#", fragment.text), round(_height_range(fragment, page)[0] / _GRID)


def _height_range(fragment: Fragment, page: PageFragments) -> tuple[float, float]:
    """Return the top and the bottom of a fragment on the page."""
    if page.writing == "horizontal":
        return fragment.top, fragment.bottom
    return fragment.start, fragment.end
