"""Layer-wise decay of the learning rate; see `docs/training.md`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from jprep.train.models.weights import HEAD_PREFIX

_LAYER = re.compile(r"(.*)\.(?:h|layer|layers)\.(\d+)\.")
_EMBEDDINGS = re.compile(r"embed|\.w[tp]e\.|encoder\.LayerNorm\.")  # the last is of DeBERTa's relative positions
_FIRST_LAYER = re.compile(r"encoder\.conv\.")  # DeBERTa adds this convolution to the output of its first layer


def layer_of(name: str) -> tuple[str, int] | None:
    """Return the prefix of a stack of layers and the number of the layer that a weight belongs to, if any.

    Args:
        name: the weight's name in transformers.
    """
    found = None if name.startswith(HEAD_PREFIX) else _LAYER.match(name)
    return (found[1], int(found[2])) if found else None


def rate_factors(names: Iterable[str], decay: float) -> dict[str, float]:
    """Return the factor of the learning rate of each weight.

    It is 1 for the head and for what stands after the last of L layers, `decay` for the last layer, its square for the
    one before, and so on; for embeddings it is `decay` to the power of L + 1.

    Args:
        names: names of the weights in transformers.
        decay: the factor from one layer to the one before it; 1 for the same rate everywhere.
    """
    names = list(names)
    layers = {name: found for name in names if (found := layer_of(name))}
    counts: dict[str, int] = {}  # of the layers after each prefix: ELECTRA's halves have their own
    for prefix, number in layers.values():
        counts[prefix] = max(counts.get(prefix, 0), number + 1)
    largest = max(counts.values(), default=0)

    def factor(name: str) -> float:
        if found := layers.get(name):
            prefix, number = found
            return decay ** (counts[prefix] - number)
        if name.startswith(HEAD_PREFIX):
            return 1.0
        if _FIRST_LAYER.search(name):
            return decay**largest
        return decay ** (largest + 1) if _EMBEDDINGS.search(name) else 1.0

    return {name: factor(name) for name in names}
