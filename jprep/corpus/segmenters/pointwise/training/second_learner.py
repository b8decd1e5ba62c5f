"""Learn the weights of the second look from boundaries that were in doubt for a model which had not seen them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jprep.corpus.segmenters.pointwise.characters import HALO, decided_by_rule
from jprep.corpus.segmenters.pointwise.second_look import FEATURES, MAX_SECOND, find_doubts
from jprep.corpus.segmenters.pointwise.training.learner import Table, logistic_errors, rounded
from jprep.corpus.segmenters.pointwise.training.passes import batch_order, enters_average
from jprep.corpus.segmenters.pointwise.weights import SCALE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.segmenters.pointwise.training.examples import Batch
    from jprep.corpus.segmenters.pointwise.weights import Weights

_RECORD = np.dtype([("index", "<u4", FEATURES), ("sum", "<i2"), ("label", "u1")])
_BATCH = 2_048  # doubts of a step


class DoubtFile:
    """The boundaries in doubt, in a file.

    Args:
        path: the file, which must not exist.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        path.touch(exist_ok=False)

    def add(self, stretch: Batch, first: Weights) -> None:
        """Append those of some whole sentences that a model has not seen."""
        sums, ruled = first.first_sums(stretch.symbols), decided_by_rule(stretch.symbols)
        doubts = find_doubts(stretch.symbols, sums, ruled, first.config.second)
        own = doubts.places - HALO
        counted = stretch.counted[own] > 0
        records = np.empty(int(counted.sum()), _RECORD)
        records["index"] = doubts.index[:, counted].T
        records["sum"] = sums[doubts.places[counted]]
        records["label"] = stretch.labels[own[counted]]
        with self._path.open("ab") as file:
            file.write(records.tobytes())

    def records(self) -> NDArray[np.void]:
        """Return all of them, mapped into memory."""
        empty = self._path.stat().st_size == 0
        return np.empty(0, _RECORD) if empty else np.memmap(self._path, _RECORD, "r")


def learn_second(records: NDArray[np.void], bits: int, *, passes: int, rate: float, seed: int) -> NDArray[np.int8]:
    """Return the weights of the second look, shape [FEATURES, 2 ** bits]: the average over the last pass."""
    table, averaged = Table(FEATURES << bits), 0
    batches = -(-len(records) // _BATCH)
    for epoch in range(passes):
        for done, place in enumerate(batch_order(batches, epoch, seed), 1):
            _step(table, records[place * _BATCH : (place + 1) * _BATCH], bits, rate)
            if epoch == passes - 1 and enters_average(done, batches):
                table.total += table.values
                averaged += 1
    found: Any = rounded(table.total / np.float32(max(1, averaged)), MAX_SECOND, np.int8)
    return found.reshape(FEATURES, -1)  # type: ignore[no-any-return]


def _step(table: Table, records: NDArray[np.void], bits: int, rate: float) -> None:
    index = records["index"].astype(np.intp) + (np.arange(FEATURES) << bits)
    scores = table.values.take(index).sum(axis=1) + records["sum"] / np.float32(SCALE)
    errors = logistic_errors(scores, records["label"]).astype(np.float32)
    table.learn(index.ravel(), np.repeat(errors, FEATURES), rate)
