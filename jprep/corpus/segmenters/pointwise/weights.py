"""Integer weights of a model, and the sums that decide about boundaries."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np

from jprep.corpus.segmenters.pointwise.characters import HALO, decided_by_rule, symbols_of
from jprep.corpus.segmenters.pointwise.features import LANES, FeatureConfig, Features, extract_features
from jprep.corpus.segmenters.pointwise.second_look import Doubts, find_doubts

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALE = 16
"""Units of a weight in one of the logarithm of odds."""

MAX_LANE = 119
"""Largest absolute weight of an n-gram: 17 of them, each made positive by adding it, fit into the bits of a lane."""

MAX_DIRECT = 4095
"""Largest absolute weight of a direct feature."""

CERTAIN = np.int16(np.iinfo(np.int16).max)
"""How sure the decisions of rules are; larger than every sum."""

BLOCK = 1 << 14
"""Boundaries that are decided at a time: most arrays of a block stay in the processor's cache."""

_LANE_BITS = np.uint64(12)
_LANE_MASK = np.uint64((1 << 12) - 1)
OFFSET = sum(LANES) * MAX_LANE


class Weights(msgspec.Struct, frozen=True, dict=True):
    """The weights of a model.

    Attributes:
        config: sizes of the tables.
        rows: weights of n-grams by length, int8, shapes [2 ** bits, lanes].
        direct: weights of direct features, int16, shapes [2 ** bits].
        words: the dictionary, uint8, shape [2 ** config.words].
        second: weights of the second look, int8, shape [FEATURES, 2 ** config.second].
        bias: what is added to every first sum. A sum above 0 is a boundary.
    """

    config: FeatureConfig
    rows: list[NDArray[np.int8]]
    direct: list[NDArray[np.int16]]
    words: NDArray[np.uint8]
    second: NDArray[np.int8]
    bias: int

    def scores(self, symbols: NDArray[np.uint32]) -> NDArray[np.int16]:
        """Return the sum of the weights of each boundary in front of all characters but `HALO` at both ends."""
        features = extract_features(symbols, self.words, self.config)
        sums = self._sum_rows(features)
        for table, index in zip(self.direct, features.direct, strict=True):
            sums += table.take(index)
        return sums

    def decide(self, padded: NDArray[np.uint16]) -> tuple[NDArray[np.bool_], NDArray[np.int16]]:
        """Return whether a word begins at each character of padded texts, see `pad_texts`, and how sure that is.

        The result is the same for every size of blocks: a sum depends on `HALO` characters on each side.

        Returns:
            found: whether a word begins there; true for pads.
            sure: the absolute value of the sum that decides; `CERTAIN` where a rule does.
        """
        symbols = symbols_of(padded)
        sums, ruled = self.first_sums(symbols), decided_by_rule(symbols)
        doubts = find_doubts(symbols, sums, ruled, self.config.second)
        sums[doubts.places] += self._second_sums(doubts)
        return (sums > 0) | ruled, np.where(ruled, CERTAIN, np.abs(sums))

    def first_sums(self, symbols: NDArray[np.uint32]) -> NDArray[np.int16]:
        """Return the sums of the boundaries in front of all characters of padded texts; 0 at the pads of both ends."""
        sums = np.zeros(len(symbols), np.int16)
        for start in range(HALO, len(symbols) - HALO, BLOCK):
            end = min(start + BLOCK, len(symbols) - HALO)
            sums[start:end] = self.scores(symbols[start - HALO : end + HALO])
        return sums

    def _second_sums(self, doubts: Doubts) -> NDArray[np.int16]:
        sums = np.zeros(len(doubts.places), np.int16)
        for table, index in zip(self.second, doubts.index, strict=True):
            sums += table.take(index)
        return sums

    def _sum_rows(self, features: Features) -> NDArray[np.int16]:
        """Add the lanes of all n-grams along the diagonal: lane k of the n-gram that begins at i - 3 + k.

        The lanes of a character are one integer of 64 bits, so that one look-up and one addition serve five weights.
        """
        tables = iter(self._packed)
        lanes = next(tables).take(features.rows[0])
        for table, index in zip(tables, features.rows[1:], strict=True):
            lanes += table.take(index)
        sums = lanes
        for _ in range(LANES[0] - 1):
            sums = lanes[: len(sums) - 1] + (sums[1:] >> _LANE_BITS)
        return (sums & _LANE_MASK).astype(np.int16) + np.int16(self.bias - OFFSET)

    @cached_property
    def _packed(self) -> list[NDArray[np.uint64]]:
        return [_pack(rows) for rows in self.rows]


def _pack(rows: NDArray[np.int8]) -> NDArray[np.uint64]:
    """Return the lanes of each row in one integer, made positive, the first in the lowest bits."""
    packed = np.zeros(len(rows), np.uint64)
    for lane in range(rows.shape[1]):
        positive: Any = (rows[:, lane].astype(np.int16) + MAX_LANE).astype(np.uint64)
        packed |= positive << (_LANE_BITS * np.uint64(lane))
    return packed
