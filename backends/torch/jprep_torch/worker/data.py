"""A session's batches as tensors on the device, some rows at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.sampler import Batch
from jprep_torch.models.model_with_loss import NO_LABEL, ModelInputs
from jprep_torch.planning.xla import XLA_DEVICES


def count_labels(batch: Batch | LabelledBatch) -> int:
    """How many labels a process's rows have: what its losses are summed over."""
    if isinstance(batch, LabelledBatch):
        return len(batch.labels)
    known = batch.labels != NO_LABEL
    return int(known.sum())


def micro_batches(
    batch: Batch | LabelledBatch, rows_each: int, rows: int, device: torch.device, *, types: bool
) -> Iterator[ModelInputs]:
    """A process's rows, so many at a time.

    Args:
        batch: its rows; in the last batch of a split fewer than `rows_each`, or none.
        rows_each: what each process has of a whole batch. That says how many micro-batches come, on all of them.
        rows: of a micro-batch.
        device: where they go.
        types: whether the model has token types.
    """
    for start in range(0, rows_each, rows):
        part = slice(start, start + rows)
        yield _put(batch, part, device, types=types) if start < len(batch.lengths) else _nothing(batch, device)


def _put(batch: Batch | LabelledBatch, part: slice, device: torch.device, *, types: bool) -> ModelInputs:
    if device.type in XLA_DEVICES and isinstance(batch, Batch):
        batch = _filled(batch, part.stop)
    ids, lengths = batch.input_ids[part], batch.lengths[part]
    second = batch.token_types[part] if types and isinstance(batch, LabelledBatch) else None
    return ModelInputs(
        ids=_tensor(ids, device),
        labels=_tensor(batch.labels[part], device),
        lengths=_tensor(lengths, device),
        full=device.type not in XLA_DEVICES and bool((lengths == ids.shape[1]).all()),
        types=None if second is None else _tensor(second, device),
    )


def _filled(batch: Batch, rows: int) -> Batch:
    """With at least so many rows: those that are added have no label. XLA compiles for each shape anew."""
    lacking = max(0, rows - len(batch.lengths))

    def repeated(field: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.concatenate([field, np.repeat(field[:1], lacking, 0)])

    labels = np.concatenate([batch.labels, np.full((lacking, batch.labels.shape[1]), NO_LABEL, batch.labels.dtype)])
    return batch._replace(input_ids=repeated(batch.input_ids), lengths=repeated(batch.lengths), labels=labels)


def _nothing(batch: Batch | LabelledBatch, device: torch.device) -> ModelInputs:
    """A row that counts for nothing: a process takes part in a divided model even where it has no row left."""
    ids = torch.zeros((1, batch.input_ids.shape[1]), dtype=torch.int64, device=device)
    labelled = isinstance(batch, LabelledBatch)
    labels = _tensor(batch.labels[:0], device) if labelled else torch.full_like(ids, NO_LABEL)
    return ModelInputs(ids, labels, torch.full((1,), ids.shape[1], device=device), full=True, types=None)


def _tensor(values: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """On the device; whole numbers as int64, which embeddings and losses want."""
    kind = np.float32 if values.dtype.kind == "f" else np.int64
    tensor = torch.from_numpy(np.ascontiguousarray(values, kind))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
