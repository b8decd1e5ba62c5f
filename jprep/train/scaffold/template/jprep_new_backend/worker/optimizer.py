"""AdamW and gradient clipping, as jprep's `docs/training.md` defines them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.train.optimization.optimizer import OptimizerConfig

Arrays = dict[str, npt.NDArray[Any]]


def global_norm(gradients: Iterable[npt.NDArray[Any]]) -> float:
    """Return √Σ g² over all gradients."""
    return float(np.sqrt(sum(np.square(gradient, dtype=np.float64).sum() for gradient in gradients)))


class AdamW:
    """AdamW with the weight decay of the job; it changes weights in place.

    Args:
        config: its constants.
        m, v: the averages of each trained weight, by name; they are changed in place.
        updates: number of updates that the averages have seen.
    """

    def __init__(self, config: OptimizerConfig, m: Arrays, v: Arrays, updates: int) -> None:
        self._config, self.m, self.v, self.updates = config, m, v, updates

    def update(self, weights: Arrays, gradients: Arrays, rate: float) -> float:
        """Clip the gradients, apply them, and return their norm before clipping.

        Args:
            weights: all weights, by name.
            gradients: gradients of the weights that the model uses.
            rate: the learning rate.
        """
        config, norm = self._config, global_norm(gradients.values())
        factor = config.clip / norm if config.clip and norm > config.clip else 1.0
        self.updates += 1
        for name, gradient in gradients.items():
            self._update(name, weights[name], gradient * np.float32(factor), rate)
        return norm

    def _update(self, name: str, weight: npt.NDArray[Any], gradient: npt.NDArray[Any], rate: float) -> None:
        config, m, v = self._config, self.m[name], self.v[name]
        m += (1 - config.beta1) * (gradient - m)
        v += (1 - config.beta2) * (np.square(gradient) - v)
        corrected_m, corrected_v = m / (1 - config.beta1**self.updates), v / (1 - config.beta2**self.updates)
        decay = config.decay_of(weight.ndim)
        weight -= rate * (corrected_m / (np.sqrt(corrected_v) + config.eps) + decay * weight)
