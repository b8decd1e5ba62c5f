"""Which tokens a masked language model has to find, and what stands there instead. `docs/sampling.md` has the rules."""

from __future__ import annotations

from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.special_ids import SpecialIds
from jprep.errors import ConfigError
from jprep.random.counter_bits import UInt64Array, below, bits

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

IGNORE_INDEX = -100
"""The label of a token that nothing is to be said about."""

KIND, TOKEN = 1 << 32, 2 << 32
"""Added to a column: the counters of what becomes of a hidden token, and of the token that may stand for it."""

_ONE = 1 << 32
_HALF = np.uint64(32)


class MaskingConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How tokens are hidden.

    Attributes:
        rate: the share of tokens that are to be found.
        masked: the share of these that become the mask token.
        random: the share of these that become any ordinary token; the rest stay as they are.
        whole_word: whether all tokens of a word are hidden together.
    """

    rate: float = 0.15
    masked: float = 0.8
    random: float = 0.1
    whole_word: bool = False


class MaskedRows(NamedTuple):
    """Rows of which something is hidden.

    Attributes:
        ids: what the model sees, int32, (rows, length).
        labels: the original ids of the tokens to predict, and `IGNORE_INDEX` elsewhere; int32, (rows, length).
    """

    ids: Ids
    labels: Ids


class Masking:
    """Hides tokens of rows, by a rule in integers: the same rows and keys give the same result everywhere.

    Args:
        config: how.
        special: the tokenizer's special ids. They are never hidden, and never stand for another token.
        newline: the id of a newline, which is part of no word; None where there is none.

    Raises:
        ConfigError: a share is out of its range, or the tokenizer has no mask token.
    """

    def __init__(self, config: MaskingConfig, special: SpecialIds, newline: int | None = None) -> None:
        _check(config, special)
        self.whole_word = config.whole_word
        self._mask, self._newline = special.mask or 0, -1 if newline is None else newline
        self._is_ordinary = np.ones(special.vocab_size, np.bool_)
        self._is_ordinary[list(special.special)] = False
        self._ordinary = self._is_ordinary.nonzero()[0].astype(np.int32)
        self._rate, self._masked, random = map(threshold, (config.rate, config.masked, config.random))
        self._changed = min(self._masked + random, _ONE)

    def __call__(self, ids: Ids, lengths: Ids, keys: UInt64Array, starts: Flags | None = None) -> MaskedRows:
        """Hide tokens.

        Args:
            ids: int32, (rows, length).
            lengths: tokens of each row without its padding, (rows,).
            keys: one for each row, (rows,).
            starts: where words start, (rows, length); only looked at for whole words.
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
        labels[row, column] = hidden = ids[row, column]
        masked = ids.copy()
        masked[row, column] = self._replaced(hidden, keys[row], column.astype(np.uint64))
        return MaskedRows(masked, labels)

    def _firsts(self, ids: Ids, ordinary: Flags, starts: Flags) -> npt.NDArray[np.int64]:
        """The column of the first token of each token's word."""
        starts = starts | (ids == self._newline)
        starts[:, 1:] |= ~ordinary[:, :-1]
        columns = np.arange(ids.shape[1])
        firsts: npt.NDArray[np.int64] = np.maximum.accumulate(np.where(starts, columns, 0), axis=1)
        return firsts

    def _replaced(self, hidden: Ids, keys: UInt64Array, columns: UInt64Array) -> Ids:
        """What stands in the place of hidden tokens, (tokens,)."""
        kind = bits(keys, columns + np.uint64(KIND)) >> _HALF
        token = self._ordinary[below(len(self._ordinary), bits(keys, columns + np.uint64(TOKEN)))]
        kept = np.where(kind < np.uint64(self._changed), token, hidden)
        return np.where(kind < np.uint64(self._masked), np.int32(self._mask), kept)


def threshold(share: float) -> int:
    """How many of the 2**32 values of half a word stand for a share."""
    return int(share * _ONE + 0.5)


def _check(config: MaskingConfig, special: SpecialIds) -> None:
    for name in ("rate", "masked", "random"):
        if not 0 <= getattr(config, name) <= 1:
            raise ConfigError(f"masking.{name} is a share", fix="give a number from 0 to 1")
    if config.masked + config.random > 1 + 1e-9:
        fix = "the usual shares are 0.8 and 0.1; what is left stays as it is"
        raise ConfigError("masking.masked and masking.random are together more than 1", fix=fix)
    if special.mask is None and config.masked:
        fix = 'train a tokenizer with special = ["roberta"] or ["bert"]'
        raise ConfigError("this tokenizer has no mask token", fix=fix)
