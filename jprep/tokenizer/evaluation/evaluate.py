"""Holds tokenizers against a text: `evaluate` several at once, `score_tokenizer` one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from jprep.tokenizer.evaluation.adapter import TokenizerAdapter
from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter
from jprep.tokenizer.evaluation.metrics import MetricsAccumulator
from jprep.tokenizer.evaluation.scores import Scores

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

Preprocess = Callable[[list[str]], list[str]]
"""Makes of paragraphs what a tokenizer wants: normalised, with U+001F between words where they are known."""

_BATCH = 1 << 18  # characters measured at once


def score_tokenizer(tokenizer: TokenizerAdapter | Tokenizer, marked: Iterable[str]) -> Scores:
    """How a tokenizer scores on a text whose words are known; its speed is not measured.

    Args:
        tokenizer: any tokenizer, or one of jprep's as `load_tokenizer` gives it.
        marked: normalised paragraphs with U+001F between words; where there is none in any of them, words are taken
            as not known. Empty paragraphs are passed over.

    Returns:
        Scores. Of a text without paragraphs they are all nought, and `figures()` is empty.
    """
    encoder = tokenizer if isinstance(tokenizer, TokenizerAdapter) else JprepAdapter(tokenizer)
    return evaluate([(encoder, list)], marked, speed=False)[0]


def evaluate(
    tokenizers: Sequence[tuple[TokenizerAdapter, Preprocess]], paragraphs: Iterable[str], *, speed: bool = True
) -> list[Scores]:
    """How tokenizers score on the same paragraphs, read once, in bounded memory.

    Args:
        tokenizers: each with what is done to the paragraphs before it sees them.
        paragraphs: one line each.
        speed: measure speed too.
    """
    meters = [(MetricsAccumulator(encoder), prepare) for encoder, prepare in tokenizers]
    for batch in _batches(paragraphs):
        for meter, prepare in meters:
            if ready := [paragraph for paragraph in prepare(batch) if paragraph]:
                meter.add(ready)
    return [meter.scores(speed=speed) for meter, _ in meters]


def _batches(paragraphs: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for paragraph in paragraphs:
        batch.append(paragraph)
        size += len(paragraph)
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
