"""Fragments of lines: characters that follow each other without a wide gap.

Places are given in the direction of reading, so that horizontal and vertical writing are the same from here on: `start`
and `end` run along a line (to the right, or down), `top` and `bottom` from line to line (down, or to the left).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from typing import Literal, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from jprep.corpus.readers.pdf.page_characters import Characters
from jprep.display_width import is_wide

Writing = Literal["horizontal", "vertical"]
Extents = NDArray[np.float64] | float

_OTHER: dict[Writing, Writing] = {"horizontal": "vertical", "vertical": "horizontal"}
_ALONG, _ACROSS = 1, 2

# Lengths are in sizes of the larger of two characters.
_SAME_LINE = 0.4  # between the middles of two characters of a line
_OVERLAP = 0.5  # of two characters that follow each other
_GAP = 1.5  # a wider one ends a fragment
_GUTTER = 0.8  # the same where lines begin: punctuation hangs into the gutter between columns
_ACROSS_GAP = 0.3  # between characters that stand across the line
_IDEOGRAPHIC_SPACE = 0.8  # a gap this wide is a space between Japanese characters
_SPACE = 0.18  # and between others
_SMALLER = 0.7  # a smaller character is ruby, or a note
_TALL = 2.5  # higher ones stand across the line
_ROWS_BACK = 4
_ONE_CHARACTER = 1.5  # shorter than two of them
_SLACK = 0.3  # between a character alone in its line and what stands above or below it

_UNLIKE = 2.5  # ratio of the size by the box and that of the font
_SMALLEST = 0.1  # points; characters without a height exist
_LINE = 6  # characters of a run that counts as a line
_COLUMN_LINES = 3  # lines that begin at the same place


class Fragment(msgspec.Struct, frozen=True):
    """A part of a line.

    Attributes:
        text: its characters, with spaces for gaps.
        start: where it begins along the line.
        end: where it ends.
        top: where it begins across the line.
        bottom: where it ends across.
        size: size of its characters, by their boxes.
        font_size: size of their font. Boxes differ more: those of a Latin font may be lower or higher by a half.
        row: whether it is a row of a table, and therefore no line of a paragraph.
    """

    text: str
    start: float
    end: float
    top: float
    bottom: float
    size: float
    font_size: float
    row: bool = False

    @property
    def length(self) -> float:
        """Return its extent along the line."""
        return self.end - self.start

    @property
    def height(self) -> float:
        """Return its extent across the line."""
        return self.bottom - self.top

    @property
    def middle(self) -> float:
        """Return its middle across the line."""
        return (self.top + self.bottom) / 2


class _Places(NamedTuple):
    """Arrays of shape [characters], see `Fragment`."""

    start: NDArray[np.float64]
    end: NDArray[np.float64]
    top: NDArray[np.float64]
    bottom: NDArray[np.float64]
    size: NDArray[np.float64]
    font_size: NDArray[np.float64]


def find_writing(page: Characters) -> Writing:
    """Return how the page is written: the direction in which most Japanese characters follow each other."""
    boxes, wide = page.boxes, np.array([is_wide(character) for character in page.text], bool)
    if len(boxes) < 2:
        return "horizontal"
    size = np.maximum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1])[1:]
    right, down = np.diff(boxes[:, [0, 2]].mean(1)), np.diff(boxes[:, [1, 3]].mean(1))
    pairs = wide[1:] & wide[:-1]
    across = pairs & (np.abs(down) < size * 0.3) & (right > 0) & (right < size * 2.5)
    downward = pairs & (np.abs(right) < size * 0.3) & (down > 0) & (down < size * 2.5)
    return "vertical" if np.count_nonzero(downward) > np.count_nonzero(across) else "horizontal"


def find_fragments(page: Characters, writing: Writing) -> list[Fragment]:
    """Return the fragments of a page, in no order."""
    runs = list(_runs(page, writing))
    lines = [run for run in runs if len(run.text) >= _LINE]
    columns = np.array([run.start for run in lines]), np.array([run.end for run in lines])
    return [fragment for row in _rows(runs) for fragment in _joined(row, columns)]


def follow(first: Fragment, second: Fragment) -> Fragment:
    """Return two fragments of a line as one."""
    gap = (second.start - first.end) / max(first.size, second.size)
    return Fragment(
        first.text + _space(first.text[-1], second.text[0], gap) + second.text,
        min(first.start, second.start),
        max(first.end, second.end),
        min(first.top, second.top),
        max(first.bottom, second.bottom),
        max(first.size, second.size),
        max(first, second, key=attrgetter("length")).font_size,
    )


def overlap_slack(length: Extents, size: Extents, other_length: Extents, other_size: Extents) -> NDArray[np.float64]:
    """Return how far apart along their lines two fragments may stand, and still be lines of one column.

    A last line of one character ends where an indented line above or below it begins, and is not a column beside it.

    Args:
        length: extents of fragments along their lines, numbers or arrays.
        size: sizes of their characters.
        other_length: extents of the other fragments.
        other_size: sizes of their characters.
    """
    alone = (length < _ONE_CHARACTER * size) | (other_length < _ONE_CHARACTER * other_size)
    return np.where(alone, _SLACK * np.minimum(size, other_size), 0.0)


def on_one_line(one: Fragment, other: Fragment) -> bool:
    """Return whether two fragments stand on the same line, as far as their places across it tell."""
    if max(one.height / one.size, other.height / other.size) > _TALL:
        return False
    return abs(one.middle - other.middle) < _SAME_LINE * max(one.size, other.size)


def _places(page: Characters, writing: Writing, wide: NDArray[np.bool_]) -> _Places:
    left, top, right, bottom = page.boxes.T
    # Boxes of Japanese characters are squares; the height of others includes what hangs above and below.
    high = np.where(page.sideways, right - left, bottom - top)
    size = np.where(wide, np.maximum(right - left, (bottom - top) * 0.7), high / 1.17)
    size = np.maximum(size, _SMALLEST)
    # Fonts of images (Type 3) have units of their own.
    known = (page.font_sizes > size / _UNLIKE) & (page.font_sizes < size * _UNLIKE)
    font_size = np.where(known, page.font_sizes, size)
    if writing == "horizontal":
        return _Places(left, right, top, bottom, size, font_size)
    return _Places(top, bottom, page.width - right, page.width - left, size, font_size)


def _runs(page: Characters, writing: Writing) -> Iterator[Fragment]:
    """Yield characters that follow each other in the content and on the page.

    Most follow along the line. Some stand across it: a number set upright in a vertical line, the heading of a page.
    """
    wide = np.array([is_wide(character) for character in page.text], bool)
    places = _places(page, writing, wide)
    along = _follows(places, _GUTTER)
    across = _follows(_places(page, _OTHER[writing], wide), _ACROSS_GAP) & ~along
    kinds = np.where(along, _ALONG, 0) + np.where(across, _ACROSS, 0)
    for first, last in _ranges(kinds.tolist(), len(page.text)):
        part = slice(first, last + 1)
        if first < last and kinds[first] == _ACROSS:
            yield from _across(page, places, part, wide[part], writing)
        else:
            yield _run(page, places, part)


def _ranges(kinds: list[int], count: int) -> Iterator[tuple[int, int]]:
    """Yield the first and the last index of each range of characters that follow each other in the same way."""
    first = 0
    while first < count:
        last = first
        while last < count - 1 and kinds[last] and kinds[last] == kinds[first]:
            last += 1
        yield first, last
        first = last + 1


def _across(
    page: Characters, places: _Places, part: slice, wide: NDArray[np.bool_], writing: Writing
) -> Iterator[Fragment]:
    """Yield characters that stand across the line as one run, unless they are lines of one character each."""
    length = part.stop - part.start
    if length > 2 if wide.any() else writing == "vertical":
        yield _bounds("".join(map(str.__add__, page.spaces[part], page.text[part])).strip(), places, part)
    else:
        for index in range(part.start, part.stop):
            yield _run(page, places, slice(index, index + 1))


def _follows(places: _Places, gap: float) -> NDArray[np.bool_]:
    """Return whether each character but the last is followed by the next one along the line."""
    middle = (places.top + places.bottom) / 2
    larger, smaller = (pick(places.size[1:], places.size[:-1]) for pick in (np.maximum, np.minimum))
    gaps = (places.start[1:] - places.end[:-1]) / larger
    beside = np.abs(np.diff(middle)) < larger * _SAME_LINE
    return beside & (gaps > -_OVERLAP) & (gaps < gap) & (smaller > larger * _SMALLER)


def _run(page: Characters, places: _Places, part: slice) -> Fragment:
    """Return characters as they stand along the line, with their white space, or a space for a gap."""
    start, end, size = places.start[part], places.end[part], places.size[part]
    order = np.argsort(start, kind="stable").tolist()
    text, spaces = page.text[part], page.spaces[part]
    gaps = [0.0, *((start[order][1:] - end[order][:-1]) / max(float(size.max()), 1e-6)).tolist()]
    made, before = "", ""
    for index, gap in zip(order, gaps, strict=True):
        made += (spaces[index] or (_space(before, text[index], gap) if gap > _SPACE else "")) if made else ""
        made, before = made + text[index], text[index]
    return _bounds(made, places, part)


def _bounds(text: str, places: _Places, part: slice) -> Fragment:
    return Fragment(
        text,
        float(places.start[part].min()),
        float(places.end[part].max()),
        float(places.top[part].min()),
        float(places.bottom[part].max()),
        float(np.median(places.size[part])),
        float(np.median(places.font_size[part])),
    )


def _space(before: str, after: str, gap: float) -> str:
    """Return what a gap between two characters, in characters, stands for."""
    if not (is_wide(before[-1]) or is_wide(after[0])):
        return " " if gap > _SPACE else ""
    return "\u3000" if gap > _IDEOGRAPHIC_SPACE else ""


def _rows(runs: Iterable[Fragment]) -> list[list[Fragment]]:
    """Return the runs of each line across the page, by their middles."""
    rows: list[list[Fragment]] = []
    for run in sorted(runs, key=lambda run: run.middle):
        row = next((row for row in reversed(rows[-_ROWS_BACK:]) if on_one_line(row[0], run)), None)
        if row is None:
            rows.append([run])
        else:
            row.append(run)
    return rows


def _joined(row: list[Fragment], columns: tuple[NDArray[np.float64], NDArray[np.float64]]) -> Iterator[Fragment]:
    """Yield the fragments of a line: its runs, joined unless a wide gap or a gutter lies between them."""
    row = sorted(row, key=lambda run: run.start)
    current = row[0]
    for run in row[1:]:
        size = max(current.size, run.size)
        if run.start - current.end < size * (_GUTTER if _is_gutter(current.end, run.start, size, columns) else _GAP):
            current = follow(current, run)
        else:
            yield current
            current = run
    yield current


def _is_gutter(
    before: float, after: float, size: float, columns: tuple[NDArray[np.float64], NDArray[np.float64]]
) -> bool:
    """Return whether lines end before a gap or begin after it; punctuation may hang by one character."""
    starts, ends = columns
    beginning = np.abs(starts - after) < 0.3 * size
    ending = (ends > before - 1.3 * size) & (ends < before + 0.3 * size)
    return max(int(np.count_nonzero(beginning)), int(np.count_nonzero(ending))) >= _COLUMN_LINES
