"""AdamW and clipping of `docs/training.md`, in operations that XLA compiles once: what changes from step to step comes
as numbers on the device.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

M, V = "exp_avg", "exp_avg_sq"
"""The averages of a weight, in the optimizer's state."""


class XlaAdamW(torch.optim.Optimizer):
    """ε after the correction of v, decay as `weight_decay` of each group says.

    Args:
        groups: of weights.
        lr: the first learning rate.
        betas: of the two averages.
        eps: ε.

    Attributes:
        updates: how many there were.
    """

    def __init__(self, groups: Iterable[dict[str, Any]], lr: float, betas: tuple[float, ...], eps: float) -> None:
        super().__init__(list(groups), {"lr": lr, "betas": betas, "eps": eps, "weight_decay": 0.0})
        self.updates = 0

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """One update."""
        self.updates += 1
        for group in self.param_groups:
            own = [weight for weight in group["params"] if weight.grad is not None]
            if not own:
                continue
            keep, rate, root = self._factors(group, own[0].device)
            for weight in own:
                self._update(weight, group, keep if group["weight_decay"] else None, rate, root)

    def begin(self) -> None:
        """Make all averages before the first step, which is then like every other."""
        for group in self.param_groups:
            for weight in group["params"]:
                self.averages(weight)

    def averages(self, weight: nn.Parameter) -> dict[str, Tensor]:
        """A weight's two averages; zeros where there was no update yet."""
        state = self.state[weight]
        for name in (M, V):
            state.setdefault(name, torch.zeros_like(weight))
        return state

    def _factors(self, group: dict[str, Any], device: torch.device) -> tuple[Tensor, ...]:
        """What is left of a weight after its decay, η / (1 − β₁ᵗ), and √(1 − β₂ᵗ)."""
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


def clip(weights: Sequence[nn.Parameter], most: float) -> Tensor:
    """The norm of all gradients; where it is larger than `most` (0 for any), gradients are made smaller to have that.

    Nothing is added to the norm.
    """
    grads = [weight.grad for weight in weights if weight.grad is not None]
    norm = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(grad) for grad in grads]))
    if most > 0:
        factor = (most / norm).clamp(max=1.0)
        for grad in grads:
            grad.mul_(factor)
    return norm
