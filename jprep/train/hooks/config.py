"""`[train.hooks]`: a user's own loss, head and metrics, and what a job records of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from jprep.typed_json import convert

if TYPE_CHECKING:
    from jprep.train.job.config import Job

HOOKS = "hooks"
"""The entry of `Job.made_from`, and the folder of the run directory with copies of the files."""


class HooksConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Your own loss, head and metrics, each as `module:name`. docs/custom-loss.md has their signatures.

    A module is a `.py` file beside the recipe, or one that is installed in the backend's environment.

    Attributes:
        loss: a function that replaces the task's loss, e.g. `losses:focal_loss`.
        head: a class that replaces the model's head (`classify`, `regress`), e.g. `heads:MeanPoolingHead`.
        metrics: functions that measure the predictions of the validation split (`classify`, `regress`).
    """

    loss: str = ""
    head: str = ""
    metrics: list[str] = []


class JobHooks(msgspec.Struct, frozen=True, kw_only=True):
    """The hooks of a job, part of its fingerprint.

    Attributes:
        loss: `FILE.py:NAME` for a file that was copied into the run directory, else `MODULE:NAME`; "" for none.
        head: in the same form.
        metrics: in the same form.
        files: the SHA-256 of each file and module, by the name before the colon.
    """

    loss: str = ""
    head: str = ""
    metrics: list[str] = []
    files: dict[str, str] = {}

    def named(self) -> dict[str, str]:
        """Return the hooks by their keys in the recipe."""
        one = {"train.hooks.loss": self.loss, "train.hooks.head": self.head}
        several = {f"train.hooks.metrics[{number}]": each for number, each in enumerate(self.metrics)}
        return {key: reference for key, reference in (one | several).items() if reference}


def job_hooks(job: Job) -> JobHooks:
    """Return the hooks of a job."""
    return convert(job.made_from.get(HOOKS, {}), JobHooks)
