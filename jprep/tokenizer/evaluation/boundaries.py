"""Where words and tokens begin, as positions in the joined texts of a batch.

A boundary is a position strictly inside a paragraph: its two ends are boundaries for every tokenizer. The position
behind a space (U+0020) does not count, neither as a word's boundary nor as a token's, because a space belongs to the
word after it; the position before the space does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from jprep.corpus.document import WORD
from jprep.tokenizer.evaluation.adapter import EncodingWithOffsets, Integers, text_offsets

Positions = NDArray[np.bool_]
"""Whether a position holds, for each of the positions 0 … characters of the joined texts."""


def code_points(text: str) -> NDArray[np.uint32]:
    """A text's code points, lone surrogates as they are."""
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.uint32)


def boundary_candidates(texts: Sequence[str]) -> Positions:
    """Positions that can be boundaries.

    Args:
        texts: without marks.
    """
    points = code_points("".join(texts))
    inside = np.ones(len(points) + 1, bool)
    inside[1:] = points != ord(" ")
    inside[text_offsets(texts)] = False
    return inside


def word_boundaries(marked: Sequence[str]) -> Positions:
    """Positions at which a word mark stands; the two ends of a text may be among them.

    Args:
        marked: texts with U+001F between words.
    """
    marks = code_points("".join(marked)) == ord(WORD)
    places = np.cumsum(~marks)  # a mark takes no place of its own
    found = np.zeros((places[-1] if len(places) else 0) + 1, bool)
    found[places[marks]] = True
    return found


def token_boundaries(encoded: EncodingWithOffsets, bases: Integers) -> Positions:
    """Positions at which one token ends and another begins, or text begins or ends that no token holds.

    A token that begins inside a character whose first byte is another token's makes no boundary.

    Args:
        encoded: the texts' tokens.
        bases: where each text begins when they are joined, and where the last one ends.
    """
    shift = np.repeat(bases[:-1], np.diff(encoded.offsets))
    starts = np.append(encoded.starts + shift, bases[-1])
    reached = np.maximum.accumulate(np.concatenate(([0], encoded.ends + shift)))
    found = np.zeros(bases[-1] + 1, bool)
    found[starts[starts >= reached]] = True
    found[reached[starts > reached]] = True
    return found
