"""A session's batches on the devices, in one shape whatever is in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep.train.job.config import Job
from jprep_flax.models.model_with_loss import ModelInputs
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.distributed import DistributedContext
from jprep_flax.worker.loss import NO_LABEL


class DeviceBatch(NamedTuple):
    """A batch on its way through the model.

    Attributes:
        rows: each field (times, rows, …), on the devices: so many rows at a time, of all processes together.
        tokens: of this process, without padding.
        labels: of this process.
    """

    rows: ModelInputs
    tokens: int
    labels: int


class BatchLoader:
    """Brings batches to the devices.

    Args:
        job: the job.
        layout: the plan's.
        place: where to.
    """

    def __init__(self, job: Job, layout: Layout, place: DistributedContext) -> None:
        self._layout, self._place = layout, place
        self._types = job.model.get("type_vocab_size", 0) > 1

    def __call__(self, batch: Batch | LabelledBatch) -> DeviceBatch:
        """This process's rows of a batch; in the last one of a split there may be fewer, or none."""
        labelled, count = isinstance(batch, LabelledBatch), len(batch.lengths)
        width = batch.input_ids.shape[1]
        types = batch.token_types if self._types and isinstance(batch, LabelledBatch) else None
        rows = ModelInputs(
            ids=self._put(batch.input_ids, np.int32, 0),
            labels=self._put(batch.labels, _kind(batch.labels), 0 if labelled else NO_LABEL),
            lengths=self._put(batch.lengths, np.int32, width),
            types=None if types is None else self._put(types, np.int32, 0),
            weight=self._put(np.ones(count), np.float32, 0),
        )
        labels = count if labelled else int((batch.labels != NO_LABEL).sum())
        return DeviceBatch(rows, int(batch.lengths.sum()), labels)

    def _put(self, values: npt.NDArray[Any], kind: type[np.generic], filling: int) -> Any:
        """In the shape that all batches have; rows that are missing count for nothing."""
        times, rows = self._layout.accumulate, self._layout.rows
        whole = np.full((times * rows, *values.shape[1:]), filling, kind)
        whole[: len(values)] = values
        return self._place.rows(whole.reshape(times, rows, *values.shape[1:]))


def _kind(labels: npt.NDArray[Any]) -> type[np.generic]:
    return np.float32 if labels.dtype.kind == "f" else np.int32
