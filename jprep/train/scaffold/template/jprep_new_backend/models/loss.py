"""The loss and its gradient."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.masking import IGNORE_INDEX

Array = npt.NDArray[Any]


def token_loss(logits: Array, labels: Array) -> tuple[float, Array]:
    """Return - Σ ln p(label), and its gradient with respect to the logits.

    Args:
        logits: (rows, length, ids).
        labels: (rows, length), `IGNORE_INDEX` where there is none.
    """
    known = labels != IGNORE_INDEX
    shifted = logits - logits.max(-1, keepdims=True)
    normalizer = np.log(np.exp(shifted).sum(-1, keepdims=True))
    log_probabilities = shifted - normalizer
    chosen = np.where(known, labels, 0)[..., None]
    loss = -np.take_along_axis(log_probabilities, chosen, -1)[..., 0].sum(where=known, dtype=np.float64)
    gradient = np.exp(log_probabilities)
    np.put_along_axis(gradient, chosen, np.take_along_axis(gradient, chosen, -1) - 1, -1)
    return float(loss), gradient * known[..., None]
