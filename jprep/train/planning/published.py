"""Warnings about settings that differ from those that a preset was published with."""

from __future__ import annotations

from jprep.train.job.config import Job
from jprep.train.models.electra import PUBLISHED_MASK_RATES


def published_warnings(job: Job) -> list[str]:
    """Return a warning if an ELECTRA preset is trained with another share of masked tokens than the published one.

    Args:
        job: the job.
    """
    preset, rate = job.train.model.preset, job.train.masking.rate
    published = PUBLISHED_MASK_RATES.get(preset, rate)
    if job.train.task != "rtd" or rate == published:
        return []
    what = f"{preset} was published with {published:.0%} of the tokens masked, and this job masks {rate:.0%}"
    return [f"{what}: --set train.masking.rate={published:g}"]
