"""Which weights Muon updates, and the figures of its iteration; see `docs/training.md`."""

from __future__ import annotations

from collections.abc import Sequence

from jprep.train.optimization.layer_decay import layer_of

NEWTON_SCHULZ, NEWTON_SCHULZ_STEPS = (3.4445, -4.7750, 2.0315), 5
"""Coefficients and steps of Muon's iteration (Jordan et al. 2024)."""


def uses_muon(name: str, shape: Sequence[int]) -> bool:
    """Return whether Muon updates a weight: a matrix of a layer, unlike embeddings, heads, biases and norms.

    Args:
        name: its name in transformers.
        shape: its shape.
    """
    return len(shape) >= 2 and layer_of(name) is not None
