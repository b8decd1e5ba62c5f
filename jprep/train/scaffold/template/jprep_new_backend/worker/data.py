"""From a session's batch to the inputs of the model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.sampler import Batch


class ModelInputs(NamedTuple):
    """Rows of a batch.

    Attributes:
        ids: int, (rows, length).
        labels: int, (rows, length): the next token, `IGNORE_INDEX` where there is none.
    """

    ids: npt.NDArray[Any]
    labels: npt.NDArray[Any]


def micro_batches(batch: Batch | LabelledBatch, size: int) -> Iterator[ModelInputs]:
    """Yield the rows of a batch, `size` rows at a time. The label of a token is the token after it."""
    labels = np.full_like(batch.labels, IGNORE_INDEX)
    labels[:, :-1] = batch.labels[:, 1:]
    for start in range(0, len(batch.lengths), size):
        part = slice(start, start + size)
        yield ModelInputs(batch.input_ids[part], labels[part])


def count_labels(batch: Batch | LabelledBatch) -> int:
    """Return the number of labels of a batch: the loss is the mean over them."""
    return int((batch.labels[:, 1:] != IGNORE_INDEX).sum())
