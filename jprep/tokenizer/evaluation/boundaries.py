"""Word and token boundaries, as positions in the concatenated texts of a batch.

A boundary is a position strictly inside a paragraph: its two ends are boundaries for every tokenizer. The position
after a space (U+0020) does not count as a word or token boundary, because a space belongs to the next word; the
position before the space counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jprep.corpus.code_points import code_points
from jprep.corpus.document import WORD
from jprep.tokenizer.encoding.batch import TokenSpans
from jprep.tokenizer.evaluation.adapter import Integers, text_offsets

Positions = NDArray[np.bool_]
"""A flag for each of the positions 0 … characters of the concatenated texts."""


def boundary_candidates(texts: Sequence[str]) -> Positions:
    """Return the positions that can be boundaries.

    Args:
        texts: texts without marks.
    """
    points = code_points("".join(texts))
    inside = np.ones(len(points) + 1, bool)
    inside[1:] = points != ord(" ")
    inside[text_offsets(texts)] = False
    return inside


def word_boundaries(marked: Sequence[str]) -> Positions:
    """Return the positions of word marks, which may include the two ends of a text.

    Args:
        marked: texts with U+001F between words.
    """
    marks = code_points("".join(marked)) == ord(WORD)
    places = np.cumsum(~marks)  # marks have no position of their own
    found = np.zeros((places[-1] if len(places) else 0) + 1, bool)
    found[places[marks]] = True
    return found


def count_cutting(texts: Sequence[str], words: Positions, tokens: Positions) -> int:
    """Return the number of tokens that contain a word boundary, and begin or end inside a word.

    Args:
        texts: texts without marks.
        words: positions of word boundaries.
        tokens: positions of token boundaries.
    """
    spaces, ends = code_points("".join(texts)) == ord(" "), np.zeros(len(words), bool)
    ends[text_offsets(texts)] = True
    whole = words | ends
    whole[:-1] |= spaces
    whole[1:] |= spaces
    places, passed = np.flatnonzero(tokens | ends), np.cumsum(words)
    starts, stops = places[:-1], places[1:]
    crossing = passed[stops - 1] > passed[starts]
    return int(np.count_nonzero(crossing & ~(whole[starts] & whole[stops])))


def token_boundaries(encoded: TokenSpans, bases: Integers) -> Positions:
    """Return the positions where a token begins or ends, or where text begins or ends that no token covers.

    A token that begins inside a character whose first byte belongs to another token gives no boundary.

    Args:
        encoded: tokens of the texts.
        bases: start of each text after concatenation, and the end of the last one.
    """
    shift = np.repeat(bases[:-1], np.diff(encoded.offsets))
    starts = np.append(encoded.starts + shift, bases[-1])
    reached = np.maximum.accumulate(np.concatenate(([0], encoded.ends + shift)))
    found = np.zeros(bases[-1] + 1, bool)
    found[starts[starts >= reached]] = True
    found[reached[starts > reached]] = True
    return found
