"""The ids of many texts, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int32]
Offsets = npt.NDArray[np.int64]


class EncodedBatch(NamedTuple):
    """The ids of many texts, concatenated.

    Attributes:
        ids: int32, (tokens,).
        offsets: int64, (texts + 1,): text i is `ids[offsets[i]:offsets[i + 1]]`.
    """

    ids: Ids
    offsets: Offsets


class TokenSpans(NamedTuple):
    """Encoded texts, with the characters of its text that each token covers.

    Attributes:
        ids: ids of all texts, concatenated, int32, (tokens,).
        offsets: text i is `ids[offsets[i]:offsets[i + 1]]`, (texts + 1,).
        starts: index in its text of the first character of which a token has a part, (tokens,).
        ends: index after the last such character, (tokens,).
    """

    ids: Any
    offsets: Offsets
    starts: Offsets
    ends: Offsets


GrowingArray = TypeVar("GrowingArray", Ids, Offsets)
BatchEncoder = Callable[[Sequence[str]], EncodedBatch]


def cumulative_offsets(lengths: Iterable[int] | Offsets) -> Offsets:
    """Return the start of each of several consecutive ranges, and the end of the last one."""
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, np.int64)
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def interleave(first: EncodedBatch, second: EncodedBatch, from_first: npt.NDArray[np.bool_]) -> EncodedBatch:
    """Return the texts of two batches as one.

    Args:
        first: some of the texts, in order.
        second: the others, in order.
        from_first: whether each text of the result is from `first`, (texts,).
    """
    lengths = np.zeros(len(from_first), np.int64)
    lengths[from_first], lengths[~from_first] = np.diff(first.offsets), np.diff(second.offsets)
    ids, of_first = np.zeros(lengths.sum(), np.int32), np.repeat(from_first, lengths)
    ids[of_first], ids[~of_first] = first.ids, second.ids
    return EncodedBatch(ids, cumulative_offsets(lengths))


def indices_of_ranges(starts: Offsets, ends: Offsets) -> Offsets:
    """Return the indices in several ranges, one range after the other.

    Args:
        starts: first index of each range, (ranges,).
        ends: cumulative lengths of the ranges, from 0 on, (ranges + 1,).
    """
    indices: Offsets = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], np.diff(ends))
    return indices


def grown(array: GrowingArray, size: int) -> GrowingArray:
    """Return the array, or one at least twice as long that begins with it, for amortised constant appends."""
    if size <= len(array):
        return array
    longer = np.zeros(max(size, 2 * len(array)), array.dtype)
    longer[: len(array)] = array
    return longer


def token_spans(ids: Sequence[Sequence[int]], spans: Sequence[Sequence[tuple[int, int]]]) -> TokenSpans:
    """Return the ids of texts, and the first character and the end of each token, as arrays."""
    offsets = cumulative_offsets(map(len, ids))
    flat = np.fromiter(chain.from_iterable(ids), np.int32, int(offsets[-1]))
    places = np.fromiter(chain.from_iterable(chain.from_iterable(spans)), np.int64, 2 * len(flat)).reshape(-1, 2)
    return TokenSpans(flat, offsets, places[:, 0], places[:, 1])


def spans_of(encodings: Sequence[Any]) -> TokenSpans:
    """Return encodings of the library `tokenizers` as arrays."""
    return token_spans([each.ids for each in encodings], [each.offsets for each in encodings])
