"""Starts a worker for each of a machine's TPUs: `python -m jprep_torch.worker.launcher COUNT MODULE …`.

torch_tpu wants to know, before any of them begins, which ports they find each other at; torchrun starts them then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch.distributed.run import main as torchrun

from jprep.errors import MachineError
from jprep.train.run.log import on_stderr
from jprep_torch.backend import DEVICE_FIXES, SECTION


def main(arguments: Sequence[str]) -> int:
    """Run so many workers to their end; 3 where there are not so many TPUs."""
    count, *command = arguments
    try:
        _prepare(int(count))
    except MachineError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code
    torchrun(["--standalone", "--nproc-per-node", count, "-m", *command])
    return 0


def _prepare(count: int) -> None:
    """Set the variables that all workers share.

    Raises:
        MachineError: there are other TPUs than planned, or torch_tpu has no way to divide them into so many.
    """
    found = torch.accelerator.device_count() if hasattr(torch, "tpu") else 0
    if found < count:
        raise MachineError(
            f"torch_tpu finds {found} TPUs, and the plan has {count}", where=SECTION, fix=DEVICE_FIXES["TPU"]
        )
    try:
        torch.tpu.distributed.set_tpu_launch_env(nnodes=1, nproc_per_node=count)
    except (ValueError, RuntimeError) as error:
        fix = "processes = 1, or as many as this host has devices; one host only"
        raise MachineError(f"torch_tpu cannot start {count} processes: {error}", where=SECTION, fix=fix) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
