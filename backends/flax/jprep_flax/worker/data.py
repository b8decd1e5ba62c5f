"""Load a session's batches onto the devices, all in one shape."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.sampler import Batch
from jprep.train.job.config import Job
from jprep_flax.models.model_with_loss import ModelInputs
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.distributed import DistributedContext


class DeviceBatch(NamedTuple):
    """A batch on the devices.

    Attributes:
        inputs: each field is (micro-batches, rows, …), with the rows of all processes.
        tokens: number of tokens of this process, without padding.
        labels: number of labels of this process.
    """

    inputs: ModelInputs
    tokens: int
    labels: int


class BatchLoader:
    """Load batches onto the devices.

    Args:
        job: the job.
        layout: the layout of the plan.
        context: the devices.
    """

    def __init__(self, job: Job, layout: Layout, context: DistributedContext) -> None:
        self._layout, self._context = layout, context
        self._has_types = job.model.get("type_vocab_size", 0) > 1
        self._class_weights = np.array(job.class_weights, np.float32)

    def training(self, batch: Batch | LabelledBatch) -> DeviceBatch:
        """Load this process's rows of a training batch, in which rows count as much as their class."""
        weights = self._class_weights[batch.labels] if len(self._class_weights) else None
        return self(batch, weights)

    def __call__(self, batch: Batch | LabelledBatch, weights: npt.NDArray[np.float32] | None = None) -> DeviceBatch:
        """Load this process's rows of a batch; the last batch of a split may have fewer rows, or none.

        Args:
            batch: the rows.
            weights: how much each counts, (rows,); None for 1 each.
        """
        labelled, count = isinstance(batch, LabelledBatch), len(batch.lengths)
        width = batch.input_ids.shape[1]
        types = batch.token_types if isinstance(batch, LabelledBatch) else batch.segments
        pairs = None if isinstance(batch, LabelledBatch) else batch.next_sentence
        documents = None if isinstance(batch, LabelledBatch) else batch.documents
        inputs = ModelInputs(
            ids=self._put(batch.input_ids, np.int32, 0),
            labels=self._put(batch.labels, _label_type(batch.labels), 0 if labelled else IGNORE_INDEX),
            lengths=self._put(batch.lengths, np.int32, width),
            types=None if types is None or not self._has_types else self._put(types, np.int32, 0),
            weight=self._put(np.ones(count) if weights is None else weights, np.float32, 0),
            noise_keys=self._noise_keys(batch),
            next_sentence=None if pairs is None else self._put(pairs, np.int32, 0),
            documents=None if documents is None else self._put(documents, np.int32, 0),
        )
        labels = count if labelled else int((batch.labels != IGNORE_INDEX).sum())
        return DeviceBatch(inputs, int(batch.lengths.sum()), labels)

    def _noise_keys(self, batch: Batch | LabelledBatch) -> Any:
        keys = batch.noise_keys if isinstance(batch, Batch) else None
        return None if keys is None else self._put(keys, np.uint32, 0)

    def _put(self, values: npt.NDArray[Any], dtype: type[np.generic], fill: int) -> Any:
        """Pad a field to the shape that all batches have, and shard it; missing rows have weight 0."""
        micro_batches, rows = self._layout.accumulate, self._layout.micro_batch
        whole = np.full((micro_batches * rows, *values.shape[1:]), fill, dtype)
        whole[: len(values)] = values
        return self._context.shard_rows(whole.reshape(micro_batches, rows, *values.shape[1:]))


def _label_type(labels: npt.NDArray[Any]) -> type[np.generic]:
    return np.float32 if labels.dtype.kind == "f" else np.int32
