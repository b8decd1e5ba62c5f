"""Evaluate tokenizers on a text: several at once, or a single one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from jprep.batching import batches_of
from jprep.tokenizer.evaluation.adapter import TokenizerAdapter
from jprep.tokenizer.evaluation.jprep_tokenizer import JprepAdapter
from jprep.tokenizer.evaluation.metrics import MetricsAccumulator
from jprep.tokenizer.evaluation.scores import Scores
from jprep.tokenizer.word_spaces import separate_words

if TYPE_CHECKING:
    from jprep.tokenizer.tokenizer import Tokenizer

Preprocess = Callable[[list[str]], list[str]]
"""Converts paragraphs to what a tokenizer expects: normalized, with U+001F between words if they are known."""

_BATCH = 1 << 18  # characters per batch


def score_tokenizer(tokenizer: TokenizerAdapter | Tokenizer, marked: Iterable[str]) -> Scores:
    """Score a tokenizer on a text with known words, without measuring speed.

    Args:
        tokenizer: any tokenizer, or one of jprep's as returned by `load_tokenizer`.
        marked: normalized paragraphs with U+001F between words; without any U+001F, words count as unknown. Empty
            paragraphs are skipped.

    Returns:
        Scores. For a text without paragraphs they are all 0, and `figures()` is empty.
    """
    encoder = tokenizer if isinstance(tokenizer, TokenizerAdapter) else JprepAdapter(tokenizer)
    return evaluate([(encoder, list)], marked, speed=False)[0]


def evaluate(
    tokenizers: Sequence[tuple[TokenizerAdapter, Preprocess]], paragraphs: Iterable[str], *, speed: bool = True
) -> list[Scores]:
    """Score tokenizers on the same paragraphs, which are read once, with bounded memory.

    Args:
        tokenizers: each with the preprocessing of its paragraphs.
        paragraphs: one line each.
        speed: whether to measure speed.
    """
    meters = [(MetricsAccumulator(encoder), prepare) for encoder, prepare in tokenizers]
    for batch in batches_of(paragraphs, _BATCH, len):
        for meter, prepare in meters:
            ready = prepare(batch)
            if meter.spaced:
                ready = [separate_words(paragraph) for paragraph in ready]
            if ready := [paragraph for paragraph in ready if paragraph]:
                meter.add(ready)
    return [meter.scores(speed=speed) for meter, _ in meters]
