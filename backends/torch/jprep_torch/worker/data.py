"""Batches of the session as tensors on the device, one micro-batch at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from jprep.dataset.labelled.dataset import LabelledBatch
from jprep.dataset.sampling.masking import IGNORE_INDEX
from jprep.dataset.sampling.sampler import Batch
from jprep_torch.models.model_with_loss import ModelInputs, RtdInputs
from jprep_torch.planning.xla import XLA_DEVICES


def count_labels(batch: Batch | LabelledBatch, class_weights: Sequence[float] = ()) -> int | float:
    """Return the number of labels of this process's rows, which its losses are summed over; or their weights' sum."""
    if isinstance(batch, LabelledBatch):
        return sum(class_weights[label] for label in batch.labels) if class_weights else len(batch.labels)
    labelled = batch.labels != IGNORE_INDEX
    return int(labelled.sum())


def count_tokens(batch: Batch | LabelledBatch) -> int:
    """Return the number of tokens of this process's rows, without padding."""
    return int(batch.lengths.sum())


def micro_batches(
    batch: Batch | LabelledBatch,
    rows: int,
    micro_batch: int,
    device: torch.device,
    *,
    types: bool,
    pair_weight: float = 0.0,
    discriminator_factor: float = 1.0,
    router_factor: float | None = None,
) -> Iterator[ModelInputs]:
    """Yield this process's rows of a batch, one micro-batch at a time.

    Args:
        batch: its rows; the last batch of a split may have fewer than `rows`, or none.
        rows: rows of each process in a full batch, which determine the number of micro-batches on all processes.
        micro_batch: rows of a micro-batch.
        device: the device.
        types: whether the model has token types.
        pair_weight: factor of the next-sentence loss of each row of sentence pairs.
        discriminator_factor: factor of the discriminator's summed loss, for `rtd`.
        router_factor: factor of the routers' summed loss, for training a mixture of experts; None for no such loss.
    """
    for start in range(0, rows, micro_batch):
        part = slice(start, start + micro_batch)
        if start < len(batch.lengths):
            inputs = _with_pairs(_inputs(batch, part, device, types=types), batch, part, pair_weight)
            router = router_factor
        else:
            inputs = _with_pairs(_no_rows(batch, device), batch, slice(0), 0.0)
            router = None if router_factor is None else 0.0
        if router is not None:
            inputs = inputs._replace(router_factor=_number(router, device))
        yield inputs._replace(rtd=_rtd_inputs(batch, part, inputs.ids, discriminator_factor))


def _with_pairs(inputs: ModelInputs, batch: Batch | LabelledBatch, part: slice, weight: float) -> ModelInputs:
    """Add what rows of sentence pairs have besides tokens; rows that only fill the shape have weight 0."""
    if isinstance(batch, LabelledBatch) or batch.next_sentence is None or batch.segments is None:
        return inputs
    device, segments, classes = inputs.ids.device, batch.segments[part], batch.next_sentence[part]
    filled = max(len(inputs.ids) - len(classes), 0)
    return inputs._replace(
        types=_tensor(np.pad(segments, ((0, filled), (0, 0))), device),
        next_sentence=_tensor(np.pad(classes, (0, filled)), device),
        pair_weights=_tensor(np.pad(np.full(len(classes), weight, np.float32), (0, filled)), device),
    )


def _rtd_inputs(batch: Batch | LabelledBatch, part: slice, ids: Tensor, factor: float) -> RtdInputs | None:
    """Return what replaced-token detection needs of a micro-batch; None for other tasks.

    Args:
        batch: this process's rows.
        part: those of the micro-batch.
        ids: the micro-batch on the device, which may have more rows.
        factor: factor of the discriminator's summed loss.
    """
    if not isinstance(batch, Batch) or batch.noise_keys is None:
        return None
    keys, tokens = np.zeros(ids.shape, np.int64), np.zeros(len(ids), np.int64)
    own = len(batch.lengths[part])
    keys[:own], tokens[:own] = batch.noise_keys[part], batch.lengths[part]
    return RtdInputs(_tensor(keys, ids.device), _tensor(tokens, ids.device), _number(factor, ids.device))


def _inputs(batch: Batch | LabelledBatch, part: slice, device: torch.device, *, types: bool) -> ModelInputs:
    if device.type in XLA_DEVICES and isinstance(batch, Batch):
        batch = _pad_rows(batch, part.stop)
    ids, lengths = batch.input_ids[part], batch.lengths[part]
    documents = batch.documents if isinstance(batch, Batch) else None
    token_types = batch.token_types[part] if types and isinstance(batch, LabelledBatch) else None
    return ModelInputs(
        ids=_tensor(ids, device),
        labels=_tensor(batch.labels[part], device),
        lengths=_tensor(lengths, device),
        full=device.type not in XLA_DEVICES and bool((lengths == ids.shape[1]).all()),
        types=None if token_types is None else _tensor(token_types, device),
        documents=None if documents is None else _tensor(documents[part], device),
        labelled=_labelled(batch.labels[part], device) if isinstance(batch, Batch) else None,
    )


def _labelled(labels: np.ndarray[Any, Any], device: torch.device) -> Tensor | None:
    """Return the places of labels; None with XLA, which compiles a program for each number of them."""
    return None if device.type in XLA_DEVICES else _tensor((labels.reshape(-1) != IGNORE_INDEX).nonzero()[0], device)


def _pad_rows(batch: Batch, rows: int) -> Batch:
    """Add rows without labels up to a number of rows, since XLA compiles a program for each shape."""
    missing = max(0, rows - len(batch.lengths))

    def repeat(field: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return np.concatenate([field, np.repeat(field[:1], missing, 0)])

    labels = np.concatenate([batch.labels, np.full((missing, batch.labels.shape[1]), IGNORE_INDEX, batch.labels.dtype)])
    documents = None if batch.documents is None else repeat(batch.documents)
    ids, lengths = repeat(batch.input_ids), repeat(batch.lengths)
    return batch._replace(input_ids=ids, lengths=lengths, labels=labels, documents=documents)


def _no_rows(batch: Batch | LabelledBatch, device: torch.device) -> ModelInputs:
    """Return a row without labels: with a sharded model each process takes part in every forward pass."""
    ids = torch.zeros((1, batch.input_ids.shape[1]), dtype=torch.int64, device=device)
    labelled = isinstance(batch, LabelledBatch)
    labels = _tensor(batch.labels[:0], device) if labelled else torch.full_like(ids, IGNORE_INDEX)
    documents = torch.zeros_like(ids) if isinstance(batch, Batch) and batch.documents is not None else None
    full = torch.full((1,), ids.shape[1], device=device)
    return ModelInputs(ids, labels, full, full=True, types=None, documents=documents)


def _number(value: float, device: torch.device) -> Tensor:
    """Return a number on the device, fp32, ()."""
    return _tensor(np.array([value], np.float32), device)[0]


def _tensor(values: np.ndarray[Any, Any], device: torch.device) -> Tensor:
    """Return an array on the device; integers as int64, which embeddings and losses need."""
    dtype = np.float32 if values.dtype.kind == "f" else np.int64
    tensor = torch.from_numpy(np.ascontiguousarray(values, dtype))
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
