"""The layout of a job: processes, ZeRO stage, offloads and micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from jprep_deepspeed.options import Device

STAGES = range(4)
"""ZeRO stages."""


class Layout(NamedTuple):
    """The layout of a job.

    Attributes:
        device: `cpu` or `cuda`.
        world: number of processes on all hosts.
        micro_batch: rows that pass through the model at a time in each process.
        accumulate: number of micro-batches for each update.
        stage: ZeRO stage.
        offload_optimizer: whether the optimizer state is in main memory.
        offload_param: whether weights are in main memory.
        gradient_checkpointing: whether only the layers' inputs are kept for the backward pass.
    """

    device: Device
    world: int
    micro_batch: int
    accumulate: int
    stage: int
    offload_optimizer: bool = False
    offload_param: bool = False
    gradient_checkpointing: bool = False

    @property
    def rows(self) -> int:
        """Rows of each process in a batch."""
        return self.micro_batch * self.accumulate

    def with_micro_batch(self, rows: int) -> Layout:
        """Return the layout with another micro-batch, a divisor of `rows`."""
        return self._replace(micro_batch=rows, accumulate=self.rows // rows)

    def with_stage(self, stage: int) -> Layout:
        """Return the layout in another stage, with the offloads that are available there."""
        optimizer, param = self.offload_optimizer and stage > 0, self.offload_param and stage == max(STAGES)
        return self._replace(stage=stage, offload_optimizer=optimizer, offload_param=param)
