"""Mask tokens for masked language modelling. `docs/sampling.md` has the rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.config import MaskingConfig
from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import UInt64Array, below, bits

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

IGNORE_INDEX = -100
"""The label of a token that the loss ignores."""

KIND, TOKEN = 1 << 32, 2 << 32
"""Added to a column to get the counters of a masked token's replacement kind and of its random replacement."""

_RANGE = 1 << 32
_HALF = np.uint64(32)


class MaskedRows(NamedTuple):
    """Rows with masked tokens.

    Attributes:
        ids: input ids, int32, (rows, length).
        labels: original ids of the tokens to predict, and `IGNORE_INDEX` elsewhere; int32, (rows, length).
    """

    ids: Ids
    labels: Ids


def check_words(made_from: Mapping[str, Any], where: str, fix: str) -> None:
    """Check that a dataset is of a segmented corpus, for whole-word masking.

    Args:
        made_from: `made_from` of the dataset.
        where: the dataset, for the error.
        fix: what to do instead, for the error.

    Raises:
        ConfigError: its corpus is not segmented: each sentence would be one word.
    """
    if not made_from.get("segmenter"):
        fix = f"{fix}, or build the corpus with a segmenter"
        raise ConfigError("whole-word masking needs words, but the corpus is not segmented", where=where, fix=fix)


class Masking:
    """Mask tokens by an integer rule: the same rows and keys give the same result on every machine.

    Args:
        config: shares of masked tokens.
        special: the tokenizer's special ids. They are never masked and never used as replacements.
        newline: id of a newline, which belongs to no word; None if there is none.

    Raises:
        ConfigError: a share is out of range, or the tokenizer has no mask token.
    """

    def __init__(self, config: MaskingConfig, special: SpecialIds, newline: int | None = None) -> None:
        check_shares(config)
        _check_mask_token(config, special)
        self.whole_word = config.whole_word
        self._mask, self._newline = special.mask or 0, -1 if newline is None else newline
        self._is_ordinary = np.ones(special.vocab_size, np.bool_)
        self._is_ordinary[list(special.special)] = False
        self._ordinary = self._is_ordinary.nonzero()[0].astype(np.int32)
        self._rate, self._masked, random = map(threshold, (config.rate, config.masked, config.random))
        self._changed = min(self._masked + random, _RANGE)

    def __call__(self, ids: Ids, lengths: Ids, keys: UInt64Array, starts: Flags | None = None) -> MaskedRows:
        """Mask tokens.

        Args:
            ids: int32, (rows, length).
            lengths: tokens per row without padding, (rows,).
            keys: one key per row, (rows,).
            starts: where words start, (rows, length); only used for whole-word masking.
        """
        columns = np.arange(ids.shape[1], dtype=np.uint64)
        ordinary = self._is_ordinary[ids]
        chosen = bits(keys.reshape(-1, 1), columns) >> _HALF < np.uint64(self._rate)
        if self.whole_word and starts is not None:
            chosen = np.take_along_axis(chosen, self._firsts(ids, ordinary, starts), axis=1)
        chosen &= ordinary
        chosen &= columns < lengths.astype(np.uint64).reshape(-1, 1)
        row, column = chosen.nonzero()
        labels = np.full_like(ids, IGNORE_INDEX)
        labels[row, column] = original = ids[row, column]
        masked = ids.copy()
        masked[row, column] = self._replaced(original, keys[row], column.astype(np.uint64))
        return MaskedRows(masked, labels)

    def limit(self, rows: MaskedRows, keys: UInt64Array, most: int, starts: Flags | None = None) -> MaskedRows:
        """Unmask tokens of rows with more than a number of labels, as formats with a fixed number of them need.

        Masked tokens, or words, stay masked in the order of their random bits, as long as there is room.

        Args:
            rows: the result of a call.
            keys: as in that call.
            most: maximum number of labels of a row.
            starts: as in that call.
        """
        labelled = rows.labels != IGNORE_INDEX
        originals = np.where(labelled, rows.labels, rows.ids)
        firsts = np.broadcast_to(np.arange(labelled.shape[1]), labelled.shape)
        if self.whole_word and starts is not None:
            firsts = self._firsts(originals, self._is_ordinary[originals], starts)
        kept = labelled.copy()
        for row in (labelled.sum(axis=1) > most).nonzero()[0]:
            kept[row] = _first_groups(labelled[row], firsts[row], keys[row : row + 1], most)
        labels = np.where(kept, rows.labels, np.int32(IGNORE_INDEX))
        return MaskedRows(np.where(kept, rows.ids, originals), labels)

    def _firsts(self, ids: Ids, ordinary: Flags, starts: Flags) -> npt.NDArray[np.int64]:
        """Return the column of the first token of each token's word."""
        starts = starts | (ids == self._newline)
        starts[:, 1:] |= ~ordinary[:, :-1]
        columns = np.arange(ids.shape[1])
        firsts: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(starts, columns, 0), axis=1)
        return firsts

    def _replaced(self, original: Ids, keys: UInt64Array, columns: UInt64Array) -> Ids:
        """Return the replacements of masked tokens, (tokens,)."""
        kind = bits(keys, columns + np.uint64(KIND)) >> _HALF
        token = self._ordinary[below(len(self._ordinary), bits(keys, columns + np.uint64(TOKEN)))]
        kept = np.where(kind < np.uint64(self._changed), token, original)
        return np.where(kind < np.uint64(self._masked), np.int32(self._mask), kept)


def _first_groups(labelled: Flags, firsts: npt.NDArray[np.int64], row_key: UInt64Array, most: int) -> Flags:
    """Return which labels of a row to keep: groups with the same first column, in the order of its random bits."""
    kept, room = np.zeros_like(labelled), most
    groups, sizes = np.unique(firsts[labelled], return_counts=True)
    for group in np.argsort(bits(row_key, groups.astype(np.uint64)), kind="stable"):
        if sizes[group] <= room:
            kept |= labelled & (firsts == groups[group])
            room -= int(sizes[group])
    return kept


def threshold(share: float) -> int:
    """Convert a share to a number of the 2**32 values of a 32-bit integer."""
    return int(share * _RANGE + 0.5)


def check_shares(config: MaskingConfig) -> None:
    """Check the shares of masked tokens.

    Raises:
        ConfigError: one is out of range, or they add up to more than 1.
    """
    for name in ("rate", "masked", "random"):
        if not 0 <= getattr(config, name) <= 1:
            raise ConfigError(f"masking.{name} must be a share", fix="use a number from 0 to 1")
    if config.masked + config.random > 1 + 1e-9:
        fix = "the usual shares are 0.8 and 0.1; the remaining tokens stay unchanged"
        raise ConfigError("masking.masked and masking.random must not add up to more than 1", fix=fix)


def _check_mask_token(config: MaskingConfig, special: SpecialIds) -> None:
    if special.mask is None and config.masked:
        fix = 'train a tokenizer with special = ["roberta"] or ["bert"]'
        raise ConfigError("this tokenizer has no mask token", fix=fix)
