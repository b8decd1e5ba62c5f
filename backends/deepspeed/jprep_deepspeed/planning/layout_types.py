"""The layout of a job: processes, ZeRO stage, offloads and micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from jprep_deepspeed.options import Device, Offload

STAGES = range(4)
"""ZeRO stages."""

SMALLEST_STAGE: dict[Offload, int] = {"none": 0, "cpu": 1, "nvme": 3}
"""The smallest stage in which the optimizer state can be kept in a place."""


class Layout(NamedTuple):
    """The layout of a job.

    Attributes:
        device: `cpu` or `cuda`.
        world: number of processes on all hosts.
        micro_batch: rows that pass through the model at a time in each process.
        accumulate: number of micro-batches for each update.
        stage: ZeRO stage.
        offload_optimizer: where the optimizer state is kept.
        offload_param: whether weights are in main memory.
        nvme_path: directory for an optimizer state in files.
        gradient_checkpointing: whether only the layers' inputs are kept for the backward pass.
    """

    device: Device
    world: int
    micro_batch: int
    accumulate: int
    stage: int
    offload_optimizer: Offload = "none"
    offload_param: bool = False
    nvme_path: str = ""
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
        optimizer = self.offload_optimizer if stage >= SMALLEST_STAGE[self.offload_optimizer] else "none"
        param = self.offload_param and stage == max(STAGES)
        return self._replace(stage=stage, offload_optimizer=optimizer, offload_param=param)
