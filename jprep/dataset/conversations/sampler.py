"""Batches of conversations: rows of `best_fit`, whose labels are answers. `docs/sampling.md` has the rules."""

from __future__ import annotations

from itertools import chain

import numpy as np

from jprep.dataset.conversations.encoding import Conversations
from jprep.dataset.sampling.best_fit import best_fit_rows
from jprep.dataset.sampling.documents import NO_DOCUMENT
from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.sample_index import Integers
from jprep.dataset.sampling.sampler import Batch, SampleOrder

_PIECES = 1 << 18  # conversations that are put together at a time


class ConversationSampler:
    """Batches of conversations by step, in the order of `Sampler`.

    Args:
        data: the conversations.
        length: tokens of a row.
        pad: padding id.
        batch: rows of a global batch.
        seed: seed of the order.
        split: name of the order, e.g. `train` or `validation`.
        drop_last: see `SampleOrder`.

    Attributes:
        samples: number of rows of an epoch.
        order: order of the rows.
        counts: see `Conversations`.

    Raises:
        ConfigError: there are no conversations, or a number is out of range.
    """

    def __init__(
        self, data: Conversations, length: int, pad: int, batch: int, seed: int, split: str, drop_last: bool = False
    ) -> None:
        self._data, self._length, self._pad, self.counts = data, length, pad, data.counts
        self._pieces, self._begins = _rows_of(np.diff(data.offsets), length)
        self.order = SampleOrder(len(self._begins) - 1, batch, seed, split, drop_last).checked()
        self.samples = self.order.epoch_rows

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Return a rank's rows of a step's global batch.

        Raises:
            ConfigError: the batch is not divisible by `world`, or there is no such rank or step.
        """
        epochs, indices = self.order.rows(step, rank, world)
        shape = len(indices), self._length
        ids, labels = np.full(shape, self._pad, np.int32), np.full(shape, IGNORE_INDEX, np.int32)
        documents, lengths = np.full(shape, NO_DOCUMENT, np.int32), np.zeros(len(indices), np.int32)
        data = self._data
        for row, index in enumerate(indices.tolist()):
            for number, piece in enumerate(self._pieces[self._begins[index] : self._begins[index + 1]].tolist()):
                own = slice(data.offsets[piece], data.offsets[piece + 1])
                place = slice(lengths[row], lengths[row] + own.stop - own.start)
                ids[row, place], documents[row, place] = data.ids[own], number
                labels[row, place] = np.where(data.answers[own], data.ids[own], IGNORE_INDEX)
                lengths[row] = place.stop
        return Batch(ids, labels, lengths, None, epochs, indices, documents=documents)


def _rows_of(sizes: Integers, length: int) -> tuple[Integers, Integers]:
    """Return the conversations of all rows, one row after the other, and where each row begins, (rows + 1,)."""
    rows = [
        np.array(row, np.int64) + start
        for start in range(0, len(sizes), _PIECES)
        for row in best_fit_rows(sizes[start : start + _PIECES], length)
    ]
    pieces = np.fromiter(chain.from_iterable(rows), np.int64)
    return pieces, np.cumsum([0, *map(len, rows)], dtype=np.int64)
