"""Settings that presets were published with, and warnings about jobs that differ from them."""

from __future__ import annotations

from typing import NamedTuple

from jprep.train.job.config import Job, Task
from jprep.train.models.presets import PRESETS


class PublishedMasking(NamedTuple):
    """How a model was pretrained.

    Attributes:
        task: the task.
        rate: the share of tokens that were masked.
    """

    task: Task
    rate: float


_BY_FAMILY = {"modernbert": PublishedMasking("mlm", 0.3)}
"""Family → masking of all of its presets, in Warner et al. (2024)."""

_BY_PRESET = {
    "electra-small": PublishedMasking("rtd", 0.15),
    "electra-base": PublishedMasking("rtd", 0.15),
    "electra-large": PublishedMasking("rtd", 0.25),
}
"""Preset → masking in Clark et al. (2020)."""


def published_masking(preset: str) -> PublishedMasking | None:
    """Return how models like a preset were pretrained; None where that is unknown, or preset is ""."""
    family = str(PRESETS[preset]["model_type"]) if preset in PRESETS else ""
    return _BY_PRESET.get(preset) or family_masking(family)


def family_masking(family: str) -> PublishedMasking | None:
    """Return how the models of a family were pretrained; None where that is unknown or differs."""
    return _BY_FAMILY.get(family)


def published_warnings(job: Job) -> list[str]:
    """Return a warning if a preset is trained with another share of masked tokens than the published one.

    Args:
        job: the job.
    """
    preset, rate = job.train.model.preset, job.train.masking.rate
    published = published_masking(preset)
    if published is None or job.train.task != published.task or rate == published.rate:
        return []
    models = f"{preset} was" if preset in _BY_PRESET else f"models of {PRESETS[preset]['model_type']} were"
    what = f"{models} published with {published.rate:.0%} of the tokens masked, and this job masks {rate:.0%}"
    return [f"{what}: --set train.masking.rate={published.rate:g}"]
