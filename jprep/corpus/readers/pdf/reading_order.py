"""The order in which the fragments of a page are read.

Two rules give the order of columns, of tiers of vertical writing and of headings over them (T. Breuel: High performance
document layout analysis, 2003):

1. A fragment comes before one that lies below it, if their ranges along the line overlap.
2. A fragment comes before one that lies wholly beyond it along the line, unless something between them across the line
   overlaps both, such as a heading over two columns.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from jprep.corpus.readers.pdf.fragments import Fragment, follow, on_one_line, overlap_slack

MOST_FRAGMENTS = 500
"""Fragments of a page that the rules are applied to: their time grows with the third power. Others are read by rows."""

_COLUMN = 6.0  # smallest width of a column of text, in characters
_EVEN = 0.4  # fraction of lines that end at the same place


def in_reading_order(fragments: Sequence[Fragment]) -> list[Fragment]:
    """Return the lines of a page in the order of reading; the cells of a row of a table are one line."""
    lines = sorted(fragments, key=_from_the_top)
    if len(lines) > MOST_FRAGMENTS:
        return lines
    lines = _join_rows(lines)
    ordered: list[Fragment] = []
    for line in (lines[index] for index in _sorted(_before(lines))):
        if ordered and on_one_line(ordered[-1], line) and line.start >= ordered[-1].end:
            ordered[-1] = follow(ordered[-1], line)
        else:
            ordered.append(line)
    return ordered


def _from_the_top(fragment: Fragment) -> tuple[float, float]:
    return fragment.top, fragment.start


def _join_rows(fragments: list[Fragment]) -> list[Fragment]:
    """Join the cells of each row of a table, and titles with the page numbers of a table of contents."""
    rows: list[Fragment] = []
    in_column: list[bool] = []
    for fragment in sorted(fragments, key=lambda each: each.start):
        left = next((number for number, row in enumerate(rows) if on_one_line(row, fragment)), None)
        if left is None or in_column[left] or rows[left].end > fragment.start:
            rows.append(fragment)
            in_column.append(_is_column(fragment, fragments))
        else:
            rows[left] = msgspec.structs.replace(follow(rows[left], fragment), row=True)
    return sorted(rows, key=_from_the_top)


def _is_column(fragment: Fragment, fragments: Sequence[Fragment]) -> bool:
    """Return whether the fragments that begin with this one, one below the other, are lines of text.

    Most lines of a text end where their column does. Cells of a table are short, or end anywhere.
    """
    ends = np.array([each.end for each in fragments if abs(each.start - fragment.start) < 2 * fragment.size])
    same = np.abs(ends[:, None] - ends) < 1.5 * fragment.size
    usual = ends[same.sum(0).argmax()]
    together = int(same.sum(0).max())
    return together > max(_EVEN * len(ends), 1) and float(usual) - fragment.start > _COLUMN * fragment.size


def _before(fragments: Sequence[Fragment]) -> NDArray[np.bool_]:
    """Return an array of shape [fragments, fragments]: whether one comes before the other by the rules."""
    start, end, middle, size = (
        np.array([getattr(each, name) for each in fragments]) for name in ("start", "end", "middle", "size")
    )
    slack = overlap_slack((end - start)[:, None], size[:, None], end - start, size)
    overlap = (start[:, None] < end + slack) & (start < end[:, None] + slack)
    above = middle[:, None] < middle
    behind = end[:, None] + slack <= start
    for index in range(len(fragments)):
        between = (middle < middle[index])[:, None] & (middle > middle[index])
        behind &= ~((between | between.T) & overlap[index][:, None] & overlap[index])
    return (overlap & above) | behind


def _sorted(before: NDArray[np.bool_]) -> list[int]:
    """Return the indexes in an order that observes all pairs, and else keeps theirs; circles are cut."""
    waiting = before.sum(0)
    ready = np.flatnonzero(waiting == 0).tolist()
    left, order = set(range(len(before))), list[int]()
    while left:
        index = heapq.heappop(ready) if ready else min(left)
        if index not in left:
            continue
        left.discard(index)
        order.append(index)
        waiting[before[index]] -= 1
        for each in np.flatnonzero(before[index] & (waiting == 0)).tolist():
            heapq.heappush(ready, each)
    return order
