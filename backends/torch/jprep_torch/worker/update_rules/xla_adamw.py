"""AdamW and clipping of `docs/training.md` in operations that XLA compiles once.

Numbers that change from step to step are tensors on the device, and not constants of the program.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from jprep_torch.worker.update_rules.norms import vector_norm

M, V = "exp_avg", "exp_avg_sq"
"""Names of a weight's averages in the optimizer's state, as in PyTorch's AdamW."""


class XlaAdamW(torch.optim.Optimizer):
    """AdamW with ε added after bias correction, and weight decay for each group.

    Args:
        groups: groups of weights.
        lr: learning rate of the first step.
        betas: decay rates of the two averages.
        eps: ε.

    Attributes:
        updates: number of updates so far.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, betas: tuple[float, ...], eps: float) -> None:
        super().__init__(list(groups), {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self.updates = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Update the weights once."""
        self.updates += 1
        for group in self.param_groups:
            trained = [weight for weight in group["params"] if weight.grad is not None]
            if not trained:
                continue
            keep, rate, root = self._factors(group, trained[0].device)
            for weight in trained:
                self._update(weight, group, keep if group["weight_decay"] else None, rate, root)

    def create_averages(self) -> None:
        """Create all averages before the first step, so that it runs the same program as the others."""
        for group in self.param_groups:
            for weight in group["params"]:
                self.averages(weight)

    def averages(self, weight: nn.Parameter) -> dict[str, Tensor]:
        """Return the two averages of a weight; zeros before the first update."""
        state = self.state[weight]
        for name in (M, V):
            state.setdefault(name, torch.zeros_like(weight))
        return state

    def _factors(self, group: dict[str, Any], device: torch.device) -> tuple[Tensor, ...]:
        """Return 1 − η λ, η / (1 − β₁ᵗ) and √(1 − β₂ᵗ)."""
        lr, (beta1, beta2) = group["lr"], group["betas"]
        correction1, correction2 = 1 - beta1**self.updates, 1 - beta2**self.updates
        numbers = [1 - lr * group["weight_decay"], lr / correction1, correction2**0.5]
        return torch.tensor(numbers, dtype=torch.float32).to(device).unbind()

    def _update(
        self, weight: nn.Parameter, group: dict[str, Any], keep: Tensor | None, rate: Tensor, root: Tensor
    ) -> None:
        beta1, beta2 = group["betas"]
        state, grad = self.averages(weight), weight.grad
        assert grad is not None
        m = state[M].mul_(beta1).add_(grad, alpha=1 - beta1)
        v = state[V].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        if keep is not None:
            weight.mul_(keep)
        weight.sub_(m / (v.sqrt() / root + group["eps"]) * rate)


def clip(weights: Sequence[nn.Parameter], limit: float) -> Tensor:
    """Clip gradients to a global norm, with nothing added to the norm.

    Args:
        weights: the weights whose gradients are changed.
        limit: the largest norm; 0 for no limit.

    Returns:
        The norm before clipping.
    """
    grads = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([vector_norm(grad) for grad in grads]))
    if limit > 0:
        factor = (limit / norm).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor)
    return norm
