"""Rows of several documents, and the same documents in rows of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from jprep.dataset.sampling.masking import IGNORE_INDEX

IDS, LENGTH, PAD = 300, 24, 1
SIZES = ((9, 15), (24,), (3, 10, 5), (11, 2))
"""Tokens of the documents of each row; the rest is padding."""
KINDS = (
    ("gpt2", "clm"), ("llama", "clm"), ("qwen3", "clm"), ("bert", "mlm"), ("roberta", "mlm"), ("electra", "mlm"),
    ("modernbert", "mlm"),
)  # fmt: skip
RATES = ("resid_pdrop", "embd_pdrop", "attn_pdrop", "hidden_dropout_prob", "attention_probs_dropout_prob")
Array = np.ndarray[Any, Any]


class Rows(NamedTuple):
    """Rows with labels, the first token of each document without one.

    Attributes:
        ids, labels: (rows, length).
        documents: number of the document of each token, -1 for padding, (rows, length).
    """

    ids: Array
    labels: Array
    documents: Array

    def alone(self) -> Iterator[tuple[Array, Array]]:
        """Yield ids and labels of each document, (1, tokens)."""
        for ids, labels, documents in zip(*self, strict=True):
            for number in range(documents.max() + 1):
                inside = documents == number
                yield ids[None, inside], labels[None, inside]


def rows_of_documents() -> Rows:
    """Return four rows with seven documents."""
    random = np.random.default_rng(2)
    ids = random.integers(5, IDS, (len(SIZES), LENGTH))
    labels = np.where(random.random(ids.shape) < 0.6, ids, IGNORE_INDEX)
    documents = np.full(ids.shape, -1)
    for row, sizes in enumerate(SIZES):
        ends = np.cumsum(sizes)
        for number, (start, end) in enumerate(zip(ends - sizes, ends, strict=True)):
            documents[row, start:end] = number
            labels[row, start] = IGNORE_INDEX
    ids[documents < 0], labels[documents < 0] = PAD, IGNORE_INDEX
    return Rows(ids, labels, documents)


def random_documents(rows: int, length: int) -> Array:
    """Return numbers of documents of random sizes, with padding behind them in most rows, (rows, length)."""
    random = np.random.default_rng(length)
    begins = random.random((rows, length)) < 4 / length
    begins[:, 0] = False
    ends = random.integers(length // 2, length, (rows, 1), endpoint=True)
    return np.where(np.arange(length) < ends, begins.cumsum(1), -1)


def small_config(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    """Return a config without dropout, and with a local attention that is shorter than a row."""
    changed = {key: 0.0 for key in RATES if key in config}
    return config | changed | ({"local_attention": 6} if kind == "modernbert" else {})
