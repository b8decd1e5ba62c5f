"""At which steps a run validates and saves: intervals in steps, and in epochs."""

from __future__ import annotations

from fractions import Fraction

from jprep.train.job.config import CheckpointConfig, Job, ValidationConfig


def is_interval_end(every: CheckpointConfig | ValidationConfig, step: int, job: Job) -> bool:
    """Return whether a step ends an interval of `every_steps`, or one of `every_epochs`.

    The k-th interval of e epochs ends at step ⌈k · e · samples / batch⌉: the first one after which k · e epochs are
    done. The same formula gives the number of steps of a run from its `epochs`. The arithmetic is exact.

    Args:
        every: the intervals; 0 is never.
        step: the number of updates done, from 1.
        job: the job.
    """
    if every.every_steps and not step % every.every_steps:
        return True
    if not every.every_epochs:
        return False
    rows = Fraction(repr(every.every_epochs)) * job.samples
    return step * job.train.batch // rows > (step - 1) * job.train.batch // rows
