"""The recipe's `[train.optimizer]`."""

from __future__ import annotations

from typing import Literal

from jprep.config import ConfigSection

OptimizerKind = Literal["adamw", "adamw-8bit", "muon"]


class OptimizerConfig(ConfigSection, frozen=True):
    """AdamW as in docs/training.md: ε after bias correction, decoupled weight decay; or Muon beside it.

    Attributes:
        kind: `adamw`; `adamw-8bit`, whose averages take a quarter of the memory; or `muon` for the matrices of layers,
            and AdamW for all other weights.
        lr: the peak learning rate, of both.
        momentum: the decay rate of Muon's momentum.
        beta1: the decay rate of the average of gradients.
        beta2: the decay rate of the average of squared gradients.
        eps: added to the denominator.
        weight_decay: decoupled weight decay, multiplied by the learning rate.
        decay: what decays: `matrices` are tensors with two or more dimensions, `all` includes biases and norms.
        layer_decay: factor of the learning rate from each layer to the one before it, e.g. 0.9 for fine-tuning.
        clip: the maximum global norm of the gradient; 0 disables clipping.
    """

    kind: OptimizerKind = "adamw"
    lr: float = 3e-4
    momentum: float = 0.95
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-8
    weight_decay: float = 0.01
    decay: Literal["matrices", "all"] = "matrices"
    layer_decay: float = 1.0
    clip: float = 1.0

    def decay_of(self, dimensions: int) -> float:
        """Return the weight decay of a tensor with a number of dimensions."""
        return self.weight_decay if self.decay == "all" or dimensions >= 2 else 0.0
