"""Time the matrix products of one step of training alone: forward, and both of the backward pass.

`python matmuls.py PRODUCTS`, in the environment of the backend torch. PRODUCTS is JSON: a list of `[batch, m, k, n,
times]`, of `batch` products (m, k) · (k, n) each. Prints the seconds of all of them.
"""

from __future__ import annotations

import json
import sys
import time

import torch

ROUNDS = 5


def seconds(batch: int, m: int, k: int, n: int) -> float:
    """The best of some rounds, of a product and its two gradients."""
    one = (batch,) if batch > 1 else ()
    x, weight, gradient = (torch.randn(*one, *shape) for shape in ((m, k), (k, n), (m, n)))
    best = float("inf")
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        torch.matmul(x, weight)
        torch.matmul(gradient, weight.mT)
        torch.matmul(x.mT, gradient)
        best = min(best, time.perf_counter() - begun)
    return best


def main() -> None:
    products = json.loads(sys.argv[1])
    print(sum(times * seconds(*shape) for *shape, times in products))


if __name__ == "__main__":
    main()
