"""Select tokens from a model's logits, in the same way for every backend."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jprep.random.counter_bits import bits, key
from jprep.train.inference.protocol import Generate, TokenProbability

_ONE = 2.0**-64


def next_token(logits: npt.NDArray[np.float64], request: Generate, position: int) -> int:
    """Return the most likely token, or a sampled one.

    Sampling is a pure function of the seed, the number of the sequence, `position` and the logits: there is no
    generator state.

    Args:
        logits: the logits of all ids, (vocab_size,).
        request: how to select.
        position: the index of the token among the generated ones, from 0.
    """
    logits = logits.copy()
    logits[request.never] = -np.inf
    if request.temperature == 0:
        return int(logits.argmax())
    order = np.argsort(-logits, kind="stable")[: request.top_k or None]
    order = order[logits[order] > -np.inf]
    with np.errstate(over="ignore"):  # at very low temperatures
        weights = np.exp((logits[order] - logits[order[0]]) / request.temperature)
    shares = np.cumsum(weights) / weights.sum()
    if request.top_p < 1:
        kept = int(np.searchsorted(shares, request.top_p)) + 1
        shares = shares[:kept] / shares[min(kept, len(shares)) - 1]
    stream = (request.sequence,) if request.sequence else ()  # the first sequence is that of a single continuation
    drawn = float(bits(key(request.seed, "generate", *stream), np.array([position], np.uint64))[0]) * _ONE
    return int(order[min(int(np.searchsorted(shares, drawn, side="right")), len(shares) - 1)])


def most_probable(logits: npt.NDArray[np.float64], count: int) -> list[TokenProbability]:
    """Return the most probable tokens, the best first.

    Args:
        logits: the logits of all ids, (vocab_size,).
        count: number of tokens.
    """
    probabilities = softmax(logits)
    order = np.argsort(-probabilities, kind="stable")[:count]
    return [TokenProbability(int(token), float(probabilities[token])) for token in order]


def softmax(logits: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the probabilities of logits, (classes,)."""
    powers = np.exp(logits - logits.max())
    probabilities: npt.NDArray[np.float64] = powers / powers.sum()
    return probabilities
