"""The number that the loss of a global batch is divided by."""

from __future__ import annotations

from typing import TypeAlias

import torch
from torch import Tensor

from jprep_torch.worker.distributed.context import DistributedContext

Number: TypeAlias = int | float | Tensor
"""A number that may be on the device."""


def add_count(total: Tensor | None, count: Tensor | None) -> Tensor | None:
    """Return the sum of the counts of micro-batches; None without a loss hook."""
    return count if total is None or count is None else total + count


def or_one(number: Number) -> Number:
    """Return a number, or 1 in place of 0."""
    return torch.where(number > 0, number, 1) if isinstance(number, Tensor) else number or 1


def labels_or_count(labels: Number, count: Tensor | None, context: DistributedContext) -> Number:
    """Return the number that the loss of a global batch is divided by: its labels, or what a loss hook has counted.

    Args:
        labels: number of labels of the global batch.
        count: this process's part of a loss hook's count; None without a hook.
        context: this process's device and rank.
    """
    if count is None:
        return or_one(labels)
    total = context.sum_over_processes(count.clone())
    total += total == 0  # a batch without labels has loss 0
    return total
