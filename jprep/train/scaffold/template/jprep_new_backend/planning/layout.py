"""How a batch is divided: here into micro-batches of one process."""

from __future__ import annotations

from typing import NamedTuple

from jprep.train.backend import Host, MicroBatchEstimate, Target
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import make_target
from jprep.train.planning.micro_batch import choose_micro_batch
from jprep_new_backend.options import SECTION, Options
from jprep_new_backend.planning.checks import check_job, check_options
from jprep_new_backend.planning.memory import estimate_memory


class Layout(NamedTuple):
    """How a batch is divided.

    Attributes:
        micro_batch: rows that go through the model at a time.
        accumulate: number of micro-batches of an update.
        memory: bytes, estimated.
        target: the device that the layout is for.
        smaller: smaller micro-batches, for the advice when memory runs out.
    """

    micro_batch: int
    accumulate: int
    memory: int
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Choose a layout.

    Raises:
        ConfigError: the backend does not support the job, or the batch cannot be divided.
    """
    check_options(options)
    check_job(job)
    target = make_target(host, "cpu", per_host=1)
    chosen = choose_micro_batch(
        job.train.batch, options.micro_batch, lambda rows: estimate_memory(job, rows), target, SECTION
    )
    return Layout(chosen.rows, chosen.accumulate, chosen.memory, target, chosen.smaller)
