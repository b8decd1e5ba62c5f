"""Score held-out texts with a trained model: the bits of each text as an arm's pipeline sees it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import log
from typing import NamedTuple, Protocol

from jprep.compare.models.restoring import changed_characters, restoring_bits
from jprep.compare.models.windows import Window, windows
from jprep.dataset.preprocessing.document_encoder import end_of_document_id
from jprep.errors import JprepError
from jprep.tokenizer.tokenizer import Tokenizer
from jprep.train.inference.protocol import Request, Response, Score

_ROWS = 64
"""Rows in a request: a response then takes seconds, not minutes."""


class Client(Protocol):
    """Answers requests; see `jprep.train.inference.client.InferenceClient`."""

    def send(self, request: Request) -> Response:
        """Return the response to a request."""


class EncodedItems(NamedTuple):
    """The held-out texts as an arm's pipeline sees them.

    Attributes:
        ids: tokens of each text.
        prefix: the id before each text.
        restoring: bits that restore each text as it was read.
        changed: characters that the pipeline changed, over all texts.
    """

    ids: list[list[int]]
    prefix: int
    restoring: list[float]
    changed: int


def encode_items(texts: Sequence[str], tokenizer: Tokenizer) -> EncodedItems:
    """Encode raw texts as the arm's tokenizer does, its corpus's normalizers first.

    What encoding loses is what decoding does not give back: by normalizers, by unknown tokens, by spaces that stand
    for newlines. Tokenizers of whole words lose where spaces were; these are not charged.
    """
    batch = tokenizer.encode_batch(texts)
    bounds = batch.offsets.tolist()
    ids = [batch.ids[start:end].tolist() for start, end in pairwise(bounds)]
    decoded = tokenizer.decode_batch(batch.ids, batch.offsets)
    originals = list(texts)
    if tokenizer.card.config.boundaries in ("spaces", "bert") or tokenizer.card.config.whole_words:
        originals, decoded = ([text.replace(" ", "") for text in each] for each in (originals, decoded))
    changed = sum(changed_characters(*pair) for pair in zip(originals, decoded, strict=True))
    return EncodedItems(ids, end_of_document_id(tokenizer), restoring_bits(originals, decoded), changed)


def score_texts(client: Client, items: EncodedItems, length: int) -> list[float]:
    """Return the bits of each text under a model.

    Args:
        client: the model.
        items: the texts.
        length: tokens of a window, at most the model's positions.

    Raises:
        JprepError: the model cannot score them.
    """
    rows = [(number, window) for number, ids in enumerate(items.ids) for window in windows(items.prefix, ids, length)]
    bits = [0.0] * len(items.ids)
    scores = score_windows(client, [window for _, window in rows])
    for (number, _), score in zip(rows, scores, strict=True):
        bits[number] -= score / log(2)
    return bits


def score_windows(client: Client, rows: Sequence[Window]) -> list[float]:
    """Return the natural log-likelihood of the scored part of each window.

    Raises:
        JprepError: the model cannot score them.
    """
    found: list[float] = []
    order = sorted(range(len(rows)), key=lambda number: len(rows[number].ids))
    for at in range(0, len(order), _ROWS):
        part = [rows[number] for number in order[at : at + _ROWS]]
        response = client.send(Score([list(window.ids) for window in part], [window.start for window in part]))
        if response.error or len(response.scores) != len(part):
            raise JprepError(f"the model cannot score texts: {response.error or 'scores are missing'}")
        found += response.scores
    by_number = dict(zip(order, found, strict=True))
    return [by_number[number] for number in range(len(rows))]
