"""The number that the loss of a global batch is divided by: its labels, or what a loss hook has counted."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn

from jprep_torch.planning.xla import XLA_DEVICES
from jprep_torch.worker.distributed import DistributedContext


def add_count(total: Tensor | None, count: Tensor | None) -> Tensor | None:
    """Return the sum of the counts of micro-batches; None without a loss hook."""
    return count if total is None or count is None else total + count


def labels_or_count(labels: int, count: Tensor | None, context: DistributedContext) -> float | Tensor:
    """Return the number that the loss is divided by.

    Args:
        labels: number of labels of the global batch.
        count: this process's part of a loss hook's count; None without a hook.
        context: this process's device and rank.
    """
    if count is None:
        return max(labels, 1)
    total = context.sum_over_processes(count.clone())
    total += total == 0  # a batch without labels has loss 0
    return total if context.kind in XLA_DEVICES else float(total)


def rescale_gradients(weights: Iterable[nn.Parameter], factor: float | Tensor) -> None:
    """Multiply gradients by a number. A factor of 1 changes no bit of them."""
    for weight in weights:
        if weight.grad is not None:
            weight.grad.mul_(factor)
