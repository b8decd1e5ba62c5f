"""The perplexity that follows from a loss."""

from __future__ import annotations

import math
from collections.abc import Mapping

from jprep.train.job.config import Job
from jprep.train.worker.next_sentence import NEXT_SENTENCE_LOSS

_LARGEST = 100.0  # a larger loss has no useful perplexity, and may overflow


def perplexity(job: Job, figures: Mapping[str, float | None], *, generator: bool = False) -> float | None:
    """Return the perplexity of the tokens that were predicted; None if the loss is not their cross entropy.

    Args:
        job: the job.
        figures: the figures of a validation.
        generator: whether to take the loss of the generator of `rtd`.
    """
    loss = figures.get("generator_loss" if generator else "loss")
    of_tokens = generator or job.train.objective in ("clm", "mlm")
    if not of_tokens or job.train.hooks.loss or loss is None or not loss < _LARGEST:
        return None
    return math.exp(loss - (figures.get(NEXT_SENTENCE_LOSS) or 0.0))
