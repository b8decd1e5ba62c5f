"""The loss that balances the load of experts, as in transformers, but of each row by itself.

The loss of a batch would not be the sum of the losses of its parts: it multiplies two means. That of a row does not
depend on how rows are divided among micro-batches and processes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def router_loss(logits: Sequence[Tensor], mask: Tensor, chosen: int) -> Tensor:
    """Return the sum over rows of the number of their tokens times their loss, fp32.

    The loss of a row is Σ over experts of (tokens sent to it / tokens) · (mean probability of it), times the number of
    experts. Tokens are those of all layers.

    Args:
        logits: of each layer's router, (rows · length, experts).
        mask: 1 for tokens and 0 for padding, (rows, length).
        chosen: experts of each token.
    """
    rows, length = mask.shape
    real = mask.float()
    sent = probable = torch.zeros((), device=mask.device)
    for layer in logits:
        probabilities = layer.float().softmax(-1).view(rows, length, -1)
        experts = probabilities.topk(chosen).indices
        once = torch.zeros_like(probabilities).scatter(-1, experts, 1.0)
        sent = sent + (once * real.unsqueeze(-1)).sum(1)
        probable = probable + (probabilities * real.unsqueeze(-1)).sum(1)
    tokens = real.sum(1)
    seen = (tokens * len(logits)).clamp_min(1).unsqueeze(1)
    losses = ((sent / seen) * (probable / seen)).sum(1) * sent.shape[1]
    return (losses * tokens).sum()
