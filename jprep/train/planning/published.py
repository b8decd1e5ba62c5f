"""Settings that presets were published with, and warnings about jobs that differ from them."""

from __future__ import annotations

from typing import NamedTuple

from jprep.train.job.config import Job, Task


class PublishedMasking(NamedTuple):
    """How a model was pretrained.

    Attributes:
        task: the task.
        rate: the share of tokens that were masked.
    """

    task: Task
    rate: float


PUBLISHED_MASKING = {
    "electra-small": PublishedMasking("rtd", 0.15),
    "electra-base": PublishedMasking("rtd", 0.15),
    "electra-large": PublishedMasking("rtd", 0.25),
    "modernbert-base": PublishedMasking("mlm", 0.3),
    "modernbert-large": PublishedMasking("mlm", 0.3),
}
"""Preset → masking in Clark et al. (2020) and Warner et al. (2024)."""


def published_warnings(job: Job) -> list[str]:
    """Return a warning if a preset is trained with another share of masked tokens than the published one.

    Args:
        job: the job.
    """
    preset, rate = job.train.model.preset, job.train.masking.rate
    published = PUBLISHED_MASKING.get(preset)
    if published is None or job.train.task != published.task or rate == published.rate:
        return []
    what = f"{preset} was published with {published.rate:.0%} of the tokens masked, and this job masks {rate:.0%}"
    return [f"{what}: --set train.masking.rate={published.rate:g}"]
