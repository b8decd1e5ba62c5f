"""Find the tokens at which words and sentences start, from the characters that each token covers."""

from __future__ import annotations

import numpy as np

from jprep.dataset.indexed.bit_packing import Marks
from jprep.dataset.manifest import SENTENCE_START, WORD_START
from jprep.dataset.preprocessing.marked_text import Flags, Integers, MarkedTexts
from jprep.tokenizer.encoding.batch import TokenSpans


def span_marks(texts: MarkedTexts, found: TokenSpans) -> Marks:
    """Return the marks of each token: those of its first character, and of characters before it that no token covers.

    White space at the beginning of a token, or left out before it, belongs to the word that follows. A token that
    covers several words has the marks of the first.

    Args:
        texts: texts with their marks.
        found: their tokens.

    Returns:
        uint8, (tokens,).
    """
    counts = np.diff(found.offsets)
    base = np.repeat(texts.begins, counts)
    starts, ends = found.starts + base, found.ends + base
    ends = np.maximum(ends, starts)
    first = np.minimum(_next_visible(texts)[starts], np.maximum(ends - 1, starts))
    reached = np.maximum.accumulate(np.concatenate(([0], ends[:-1]))) if len(ends) else ends
    reached = np.maximum(reached, base)  # a text begins anew
    marks = np.zeros(len(starts), np.uint8)
    for mark in (WORD_START, SENTENCE_START):
        before = np.concatenate(([0], np.cumsum((texts.starts & mark) != 0)))
        marks |= (
            (before[np.minimum(first + 1, len(texts.starts))] > before[np.minimum(reached, first + 1)])
            & (reached <= first)
        ).astype(np.uint8) * np.uint8(mark)
    return marks


def _next_visible(texts: MarkedTexts) -> Integers:
    """Return, for each character and the end, the position of the next one that is no white space."""
    joined = "\n".join(texts.texts)
    space: Flags = np.fromiter(map(str.isspace, joined), bool, len(joined))
    positions = np.where(space, len(joined), np.arange(len(joined)))
    following: Integers = np.minimum.accumulate(positions[::-1])[::-1]
    return np.append(following, len(joined))
