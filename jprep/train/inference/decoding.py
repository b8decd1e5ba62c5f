"""The next token from a model's logits: the same one in every backend, up to rounding."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jprep.random.counter_bits import bits, key
from jprep.train.inference.protocol import Generate

_ONE = 2.0**-64


def next_token(logits: npt.NDArray[np.float64], request: Generate, place: int) -> int:
    """Take the likeliest token, or sample one.

    What is drawn is a function of (seed, place) and the logits: no other request and no generator's state has a part.

    Args:
        logits: of all ids, (vocab_size,).
        request: how to choose.
        place: the number of the token among those that are generated, from 0.
    """
    logits = logits.copy()
    logits[request.never] = -np.inf
    if request.temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")[: request.top_k or None]
    order = order[logits[order] > -np.inf]
    with np.errstate(over="ignore"):  # at the lowest temperatures
        weights = np.exp((logits[order] - logits[order[0]]) / request.temperature)
    shares = np.cumsum(weights) / weights.sum()
    if request.top_p < 1:
        kept = int(np.searchsorted(shares, request.top_p)) + 1
        shares = shares[:kept] / shares[min(kept, len(shares)) - 1]
    drawn = float(bits(key(request.seed, "generate"), np.array([place], np.uint64))[0]) * _ONE
    return int(order[min(int(np.searchsorted(shares, drawn, side="right")), len(shares) - 1)])
