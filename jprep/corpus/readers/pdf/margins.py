"""Running headers, running footers and page numbers."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from operator import attrgetter
from typing import NamedTuple

from jprep.corpus.readers.pdf.fragments import Fragment, Writing

_MARGIN = 0.12  # of the page's height
_REPEATED = 3  # pages with the same text at the same place
_GRID = 6.0  # points: places that differ by less are the same
_WIDE_GRID = 24.0  # the same along the line, where the places of numbers depend on their digits
_GROWN = 4  # pages with a number that grows with them, at least half of those with such a text at this place
_BESIDE = 0.5  # of a fragment's height: others whose middle is nearer are in its line
_WORD = re.compile(r"\w")
_DIGITS = re.compile(r"[0-9０-９〇一二三四五六七八九十百]+")
_COUNT = re.compile(r"[0-9０-９]{1,4}")
_NUMBER = re.compile(
    r"[-–—―‐－〜~・\s(（\[]*(?:[pP]\.?\s*)?[0-9０-９]{1,4}(?:\s*[/／]\s*[0-9０-９]{1,4})?[-–—―‐－〜~・\s)）\]]*"
)

_Key = tuple[str | int, ...]


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

    In the margins (12 % of the height at the top and at the bottom), these are headers, footers and page numbers:

    - a number that is alone in its line;
    - a text that three pages have at the same place. Numbers in it may differ if it is alone in its line;
    - a text with a number that grows with the page, on most of the pages that have such a text at the same place, and
      on four or more.
    """
    counts = Counter(
        key
        for number, page in enumerate(pages)
        for key in {key for each in page.fragments if _in_margin(each, page) for key in _keys(each, page, number)}
    )
    kept = [_body(page, number, counts) for number, page in enumerate(pages)]
    return kept, sum(len(page.fragments) for page in pages) - sum(map(len, kept))


def _body(page: PageFragments, number: int, counts: Counter[_Key]) -> list[Fragment]:
    by_line = sorted((each for each in page.fragments if _WORD.search(each.text)), key=attrgetter("middle"))

    def is_running(fragment: Fragment) -> bool:
        same, alike, alike_here, *growing = (counts[key] for key in _keys(fragment, page, number))
        is_number = _NUMBER.fullmatch(fragment.text) is not None
        if same >= _REPEATED and not is_number:  # a cell of a table may be 0 on every page
            return True
        if any(pages >= max(_GROWN, alike_here / 2) for pages in growing):
            return True
        return (is_number or alike >= _REPEATED) and _is_alone(fragment, page, by_line)

    return [each for each in page.fragments if not (_in_margin(each, page) and is_running(each))]


def _in_margin(fragment: Fragment, page: PageFragments) -> bool:
    top, bottom = _height_range(fragment, page)
    return bottom < page.height * _MARGIN or top > page.height * (1 - _MARGIN)


def _is_alone(fragment: Fragment, page: PageFragments, by_line: Sequence[Fragment]) -> bool:
    """Whether no other words are in its line; in a vertical line, which a page number may end, near it."""
    reach, middle = fragment.height * _BESIDE, attrgetter("middle")
    first = bisect_left(by_line, fragment.middle - reach, key=middle)
    last = bisect_right(by_line, fragment.middle + reach, key=middle)
    return not any(
        page.writing == "horizontal" or _gap(fragment, other) < fragment.size
        for other in by_line[first:last]
        if other is not fragment
    )


def _gap(one: Fragment, other: Fragment) -> float:
    return max(one.start, other.start) - min(one.end, other.end)


def _keys(fragment: Fragment, page: PageFragments, number: int) -> Iterator[_Key]:
    """Yield what pages with the same header have in common: its text, its text with any numbers, the same at the same
    place along the line, and for each of its numbers, how far it is ahead of the page.
    """
    place, form = round(_height_range(fragment, page)[0] / _GRID), _DIGITS.sub("#", fragment.text)
    yield "text", fragment.text, place
    yield "any number", form, place
    along = round((fragment.start if page.writing == "horizontal" else fragment.top) / _WIDE_GRID)
    yield "here", form, place, along
    for index, found in enumerate(_COUNT.finditer(fragment.text)):
        for pages in (1, 2):  # that a page of the PDF shows
            yield "growing", form, place, along, index, pages, int(found[0]) - pages * number


def _height_range(fragment: Fragment, page: PageFragments) -> tuple[float, float]:
    """Return the top and the bottom of a fragment on the page."""
    if page.writing == "horizontal":
        return fragment.top, fragment.bottom
    return fragment.start, fragment.end
