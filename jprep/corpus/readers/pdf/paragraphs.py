"""Join lines to paragraphs."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from jprep.corpus.readers.pdf.fragments import Fragment, on_one_line, overlap_slack
from jprep.display_width import is_wide

_SENTENCE_END = re.compile(r"[。．.!?！？」』）)】…:：]\Z")
_LEADER = re.compile(  # to a page number, in a table of contents
    r"[.．・･…‥](?: ?[.．・･…‥]){3} ?[0-9０-９ivx]{1,4}\Z|[.．](?: ?[.．]){5}\Z"
)
_HYPHEN = re.compile(r"(?<=[a-zA-Z])[-‐]\Z")
_WORD = re.compile(r"[a-z]")
_UNBROKEN = re.compile(r"([A-Za-z][A-Za-z'-]*)(?: [A-Za-z0-9'-]+)* ?[^ !-~]")  # a Latin word in Japanese text
_BULLET = re.compile(r"([•・▪■□●○◎◆◇▶►★☆※＊*‣⁃])(?!\1)")  # ○○ stands for a name that is left out
_ALSO_IN_TEXT = "・■□●○◎★☆※＊*"  # 東京・大阪, ○印
_ITEM = re.compile(  # of a list: a dash, a bullet that the font does not map, or a number
    r"[〓–—―-]|[0-9]{1,4} |[①-⑳]|[(（]?(?:[0-9０-９]{1,4}|[A-Za-zア-ン]|[IVXivxⅠ-ⅿ]+)[.．)）、:：　]"
)

# Lengths are in sizes of a character.
_INDENTED = 0.7
_SHORT = 1.9  # a line that ends this much before its column does is the last of its paragraph
_PART = 0.5  # of the width of a column: a shorter line, such as a page number, is not part of a paragraph there
_LETTER = 0.6  # at most; a Latin word goes to the next line as a whole
_GAP = 1.4  # between lines, as a factor of the usual distance
_OTHER_SIZE = 1.15  # ratio of sizes: a heading


class Paragraphs(NamedTuple):
    """The text of a document.

    Attributes:
        lines: a paragraph each.
        joined: number of line breaks that were removed.
        hyphens: number of hyphens at the ends of lines that were removed.
    """

    lines: list[str]
    joined: int
    hyphens: int


class _Line(NamedTuple):
    """A line in its column.

    Attributes:
        fragment: what stands on it.
        column: where its column begins and ends along the line.
        usual: usual distance of the lines of its column.
        number: page and number of its column.
    """

    fragment: Fragment
    column: tuple[float, float]
    usual: float
    number: tuple[int, int]


def join_lines(pages: Sequence[Sequence[Fragment]]) -> Paragraphs:
    """Return the paragraphs of the lines of all pages, which are in the order of reading."""
    lines = [line for number, page in enumerate(pages) for line in _lines(page, number)]
    paragraphs, joined, hyphens = list[list[str]](), 0, 0
    for index, line in enumerate(lines):
        after = lines[index + 1] if index + 1 < len(lines) else None
        if index and not _begins_paragraph(lines[index - 1], line, after):
            joined, hyphens = joined + 1, hyphens + _add_line(paragraphs[-1], line.fragment.text)
        else:
            paragraphs.append([line.fragment.text])
    return Paragraphs(["".join(parts) for parts in paragraphs], joined, hyphens)


def _lines(page: Sequence[Fragment], number: int) -> Iterator[_Line]:
    for part, column in enumerate(_columns(page)):
        size = float(np.median([each.font_size for each in column]))
        text = [each for each in column if each.font_size < size * _OTHER_SIZE] or column
        ends = min(each.start for each in text), max(each.end for each in text)
        distances = [second.middle - first.middle for first, second in itertools.pairwise(column)]
        usual = float(np.median(distances)) if distances else 2 * size
        for fragment in column:
            yield _Line(fragment, ends, usual, (number, part))


def _columns(page: Sequence[Fragment]) -> Iterator[list[Fragment]]:
    """Yield the lines of a page that lie below each other without a jump."""
    column: list[Fragment] = []
    for fragment in page:
        if column and not _lies_below(column[-1], fragment):
            yield column
            column = []
        column.append(fragment)
    if column:
        yield column


def _lies_below(above: Fragment, below: Fragment) -> bool:
    if on_one_line(above, below) or below.middle < above.middle:
        return False
    slack = float(overlap_slack(above.length, above.size, below.length, below.size))
    overlap = below.start < above.end + slack and above.start < below.end + slack
    return overlap and below.top - above.bottom < 4 * above.size


def _begins_paragraph(before: _Line, line: _Line, after: _Line | None) -> bool:
    """Return whether a line is the first of a paragraph."""
    if _differ(before.fragment, line.fragment) or _is_short(before, line.fragment):
        return True
    if _begins_item(before, line, after):
        return True
    ended = _ends_sentence(before)
    indented = line.fragment.start - line.column[0] > _INDENTED * line.fragment.font_size
    if line.number != before.number:  # the next column or page
        return (ended and indented) or not _may_go_on(before.fragment, line)
    if line.fragment.middle - before.fragment.middle > _GAP * line.usual:
        return True
    return indented and (ended or (_ITEM.match(line.fragment.text) is not None and not _hangs(line, after)))


def _differ(before: Fragment, line: Fragment) -> bool:
    """Return whether a line cannot be of the same paragraph as the one before."""
    smaller, larger = sorted((before.font_size, line.font_size))
    return before.row or line.row or larger > smaller * _OTHER_SIZE or _LEADER.search(before.text) is not None


def _begins_item(before: _Line, line: _Line, after: _Line | None) -> bool:
    """Return whether a line begins with a bullet, and not with a sign in the middle of a sentence."""
    text, size = line.fragment.text, line.fragment.font_size
    bullet = _BULLET.match(text)
    if bullet is None or bullet[1] not in _ALSO_IN_TEXT or text[1:2].isspace() or _ends_sentence(before):
        return bullet is not None
    outdented = line.fragment.start < before.fragment.start - _INDENTED * size
    hanging = after is not None and after.fragment.start > line.fragment.start + _INDENTED * size
    return outdented or hanging or any(_BULLET.match(each.fragment.text) for each in (before, after) if each)


def _is_short(before: _Line, line: Fragment) -> bool:
    """Return whether a line ends before its column does, and not for want of room for the next word."""
    room = (before.column[1] - before.fragment.end) / line.font_size
    if room <= _SHORT:
        return False
    word = _UNBROKEN.match(line.text)
    return _ends_sentence(before) or word is None or len(word[1]) * _LETTER < room


def _may_go_on(before: Fragment, line: _Line) -> bool:
    """Return whether a line may continue in the next column: page numbers, headings and cells are alone in theirs."""
    length, width = before.length, line.column[1] - line.column[0]
    return length > _PART * width and (width > _PART * length or any(map(is_wide, line.fragment.text)))


def _ends_sentence(line: _Line) -> bool:
    return _SENTENCE_END.search(line.fragment.text) is not None


def _hangs(line: _Line, after: _Line | None) -> bool:
    """Return whether the next line is indented like this one."""
    if after is None or after.number != line.number:
        return False
    return after.fragment.start > line.fragment.start - 0.5 * line.fragment.font_size


def _add_line(parts: list[str], line: str) -> bool:
    """Add the next line to the parts of a paragraph; return whether a hyphen before it was removed."""
    last = parts[-1]
    if _HYPHEN.search(last) and _WORD.match(line):
        parts[-1:] = last[:-1], line
        return True
    parts.append(line if is_wide(last[-1]) or is_wide(line[0]) else f" {line}")
    return False
