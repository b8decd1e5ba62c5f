"""A session's batches as model inputs, all in few shapes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.sampler import Batch
from jprep.train.job.config import Job
from jprep_keras.models.model_with_loss import ModelInputs
from jprep_keras.planning.layout import Layout

_FEWEST = 16

Integers = npt.NDArray[np.int32]


class LoadedBatch(NamedTuple):
    """A batch for the engine.

    Attributes:
        inputs: each field is (micro-batches, rows, …), with the rows of all devices.
        tokens: number of tokens, without padding.
        labels: number of labels.
        rows: number of rows that count.
    """

    inputs: ModelInputs
    tokens: int
    labels: int
    rows: int


class BatchLoader:
    """Make model inputs of batches.

    Args:
        job: the job.
        layout: the layout of the plan.
    """

    def __init__(self, job: Job, layout: Layout) -> None:
        self._layout, self._task = layout, job.train.objective
        self._has_types = job.model.get("type_vocab_size", 0) > 1

    def __call__(self, batch: Batch | LabelledBatch) -> LoadedBatch:
        """Return the inputs of a batch; the last batch of a split may have fewer rows."""
        count, width = batch.input_ids.shape
        none = np.zeros((count, width), np.int32)
        labelled = isinstance(batch, LabelledBatch)
        types = batch.token_types if isinstance(batch, LabelledBatch) else batch.segments
        pairs = None if isinstance(batch, LabelledBatch) else batch.next_sentence
        documents = None if isinstance(batch, LabelledBatch) else batch.documents
        positions, labels = self._labels(batch)
        inputs = ModelInputs(
            ids=self._shape(batch.input_ids, np.int32, 0),
            lengths=self._shape(batch.lengths, np.int32, width),
            types=self._shape(types if self._has_types and types is not None else none, np.int32, 0),
            positions=self._shape(positions, np.int32, 0),
            labels=self._shape(labels, *(_type(labels))),
            weight=self._shape(np.ones(count), np.float32, 0),
            next_sentence=self._shape(none[:, 0] if pairs is None else pairs, np.int32, 0),
            documents=self._shape(none[:, :0] if documents is None else documents, np.int32, 0),
        )
        number = count if labelled else int((labels != IGNORE_INDEX).sum())
        return LoadedBatch(inputs, int(batch.lengths.sum()), number, count)

    def _labels(self, batch: Batch | LabelledBatch) -> tuple[Integers, npt.NDArray[Any]]:
        """Return the positions of labels, and the labels."""
        none = np.zeros((len(batch.lengths), 0), np.int32)
        if isinstance(batch, LabelledBatch):
            return none, batch.labels
        if self._task == "clm":  # the label of a token is the next token
            following = batch.labels[:, 1:].astype(np.int32)
            return none, np.pad(following, ((0, 0), (0, 1)), constant_values=IGNORE_INDEX)
        return labelled_positions(batch.labels)

    def _shape(self, values: npt.NDArray[Any], dtype: type[np.generic], fill: int) -> npt.NDArray[Any]:
        """Pad a field to the rows that all batches have, and divide it into micro-batches."""
        micro_batches, rows = self._layout.accumulate, self._layout.micro_batch
        whole = np.full((micro_batches * rows, *values.shape[1:]), fill, dtype)
        whole[: len(values)] = values
        return whole.reshape(micro_batches, rows, *values.shape[1:])


def labelled_positions(labels: npt.NDArray[Any]) -> tuple[Integers, Integers]:
    """Return the positions that have a label, and these labels, in as many columns as a few shapes need.

    Args:
        labels: (rows, length), `IGNORE_INDEX` where there is none.

    Returns:
        Both (rows, columns): position 0 and `IGNORE_INDEX` where a row has fewer.
    """
    length = labels.shape[1]
    step = max(_FEWEST, length // 8)
    known = labels != IGNORE_INDEX
    most = int(known.sum(axis=1).max(initial=1))
    columns = min(length, -(-most // step) * step)
    positions = np.argsort(~known, axis=1, kind="stable")[:, :columns].astype(np.int32)
    chosen = np.take_along_axis(labels, positions, axis=1).astype(np.int32)
    return np.where(chosen != IGNORE_INDEX, positions, 0).astype(np.int32), chosen


def _type(labels: npt.NDArray[Any]) -> tuple[type[np.generic], int]:
    """Return the type of labels, and the value of rows that only fill the shape."""
    if labels.dtype.kind == "f":
        return np.float32, 0
    return np.int32, IGNORE_INDEX if labels.ndim > 1 else 0
