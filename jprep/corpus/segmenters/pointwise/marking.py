"""Insert marks between the words of texts, with numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from jprep.corpus.document import WORD
from jprep.corpus.segmenters.pointwise.characters import fold_codes, pad_texts
from jprep.corpus.segmenters.pointwise.weights import CERTAIN, Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Marked(NamedTuple):
    """Texts with U+001F between words.

    Attributes:
        codes: their code points, one text after the other.
        ends: where each text ends there, shape [texts].
        sure: the least absolute sum of the boundaries of each text, or `CERTAIN`, shape [texts].
    """

    codes: NDArray[np.uint32]
    ends: NDArray[np.int64]
    sure: NDArray[Any]


def mark_codes(codes: NDArray[np.uint32], lengths: NDArray[np.int64], weights: Weights) -> Marked:
    """Insert U+001F between the words of some texts, none of which is empty; see `find_boundaries`."""
    begins, sure = find_boundaries(codes, lengths, weights)
    ends = np.cumsum(lengths)
    begins[ends - lengths] = False
    sure[ends - lengths] = CERTAIN
    places = np.flatnonzero(begins)
    marked = np.insert(codes, places, ord(WORD))
    return Marked(marked, ends + np.searchsorted(places, ends), np.minimum.reduceat(sure, ends - lengths))


def find_boundaries(
    codes: NDArray[np.uint32], lengths: NDArray[np.int64], weights: Weights
) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
    """Return whether a word begins at each character of some texts, and how sure that is; see `Weights.decide`.

    Both are undefined at the first character of a text.

    Args:
        codes: code points of the texts, one after the other.
        lengths: characters of each text.
        weights: the model.
    """
    padded, places = pad_texts(fold_codes(codes), lengths)
    found, sure = weights.decide(padded)
    return found[places], sure[places]
