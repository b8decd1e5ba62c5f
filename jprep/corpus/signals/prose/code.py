"""Find the code in texts, so that the scripts of the prose around it can be judged.

Code is: what stands between two fences (``` or ~~~); lines that are nearly without Japanese and rich in the
punctuation of code; in Markdown, what stands between backquotes within a line, and the targets of links.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.signals.character_kinds import KINDS, table_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

JAPANESE = tuple(KINDS.index(kind) for kind in ("hiragana", "katakana", "kanji"))
_PUNCTUATION = "{}()[]<>=;:_$&|*/\\#\"'`@%^~+-.,!"
_LEAST_PUNCTUATION = 0.12
_MOST_JAPANESE = 0.15
_BACKQUOTE, _TILDE, _LINE_FEED = ord("`"), ord("~"), ord("\n")
_FENCE = 3


def code_mask(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each code point of a batch belongs to code, shape [code points]."""
    lines = code_like_lines(batch)
    ticks = batch.codes == _BACKQUOTE
    fences = _fences(batch)
    if fences.any():
        lines |= _between(fences, batch.first_lines[batch.line_docs]) | fences
    code = np.repeat(lines, np.diff(batch.line_starts))
    if ticks.any():
        code |= _inline(batch, ticks)
    return code | _link_targets(batch.codes)


def code_like_lines(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each line is nearly without Japanese and rich in the punctuation of code, shape [lines]."""
    first = batch.line_starts[:-1]
    if not len(first):
        return np.zeros(0, bool)
    japanese, visible, marks = (np.add.reduceat(values, first, dtype=np.int64) for values in _per_character(batch))
    return (visible > 0) & (japanese <= _MOST_JAPANESE * visible) & (marks >= _LEAST_PUNCTUATION * visible)


def _per_character(batch: TextBatch) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.bool_]]:
    return is_japanese().take(batch.kinds), batch.kinds > 0, table_of(_PUNCTUATION).take(batch.codes)


@functools.cache
def is_japanese() -> NDArray[np.bool_]:
    """Return whether each of `KINDS` is a Japanese script."""
    return np.isin(np.arange(len(KINDS)), JAPANESE)


def _fences(batch: TextBatch) -> NDArray[np.bool_]:
    """Return whether each line begins with a fence that opens or closes code, shape [lines].

    The last of an odd number of fences in a document is none: without its counterpart, the rest would become code.
    """
    first = batch.line_starts[:-1]
    padded = np.append(batch.codes, [0] * _FENCE)
    heads = padded[first[:, None] + np.arange(_FENCE)]
    found = (heads == _BACKQUOTE).all(1) | (heads == _TILDE).all(1)
    for line in np.flatnonzero(found).tolist():
        found[line] = not _is_decorated(batch.line(line))
    docs, order = batch.line_docs, np.cumsum(found)
    order -= (order - found)[batch.first_lines][docs]
    total = batch.counts(docs, found)[docs]
    return np.asarray(found & ((order < total) | (total % 2 == 0)))


def _is_decorated(line: str) -> bool:
    """Return whether the marks at the beginning of a line occur in the rest of it: `~~~title~~~` is not a fence."""
    return line[0] in line.lstrip(line[0])


def _between(marks: NDArray[np.bool_], first: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether an odd number of marks stands before each place or at it, counted from the place `first`."""
    count = np.cumsum(marks)
    return np.asarray((count - (count - marks)[first]) % 2 == 1)


def _inline(batch: TextBatch, ticks: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return whether each code point is between two backquotes of its line, or is one. Odd numbers are not code."""
    sizes, first = np.diff(batch.line_starts), batch.line_starts[:-1]
    paired = np.add.reduceat(ticks, first, dtype=np.int64) % 2 == 0
    return np.asarray((_between(ticks, np.repeat(first, sizes)) | ticks) & np.repeat(paired, sizes))


def _link_targets(codes: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return whether each code point is in the target of a Markdown link, `(…)` behind `]`, shape [code points]."""
    opening = np.flatnonzero((codes[:-1] == ord("]")) & (codes[1:] == ord("("))) + 1
    if not len(opening):
        return np.zeros(len(codes), bool)
    ends = np.flatnonzero((codes == ord(")")) | (codes == _LINE_FEED))
    closing = ends[np.searchsorted(ends, opening)]
    steps = np.bincount(opening, minlength=len(codes) + 1) - np.bincount(closing + 1, minlength=len(codes) + 1)
    return np.asarray(np.cumsum(steps[:-1]) > 0)
