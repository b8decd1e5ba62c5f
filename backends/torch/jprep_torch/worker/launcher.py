"""Start a worker for each TPU of this machine: `python -m jprep_torch.worker.launcher COUNT MODULE …`.

torch_tpu must know the ports of all workers before any of them starts; then torchrun starts them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch.distributed.run import main as torchrun

from jprep.errors import MachineError
from jprep.train.run.log import on_stderr
from jprep_torch.options import SECTION
from jprep_torch.planning.checks import DEVICE_FIXES


def main(arguments: Sequence[str]) -> int:
    """Run the workers to their end.

    Args:
        arguments: the number of workers, their module and its arguments.

    Returns:
        The exit code; 3 if there are fewer TPUs.
    """
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
        MachineError: there are fewer TPUs than planned, or torch_tpu cannot divide them among so many workers.
    """
    found = torch.accelerator.device_count() if hasattr(torch, "tpu") else 0
    if found < count:
        what = f"torch_tpu finds {found} TPUs, but the plan has {count}"
        raise MachineError(what, where=SECTION, fix=DEVICE_FIXES["TPU"])
    try:
        torch.tpu.distributed.set_tpu_launch_env(nnodes=1, nproc_per_node=count)
    except (ValueError, RuntimeError) as error:
        fix = "processes = 1, or the number of TPU devices of this host; several hosts are not supported"
        raise MachineError(f"torch_tpu cannot start {count} processes: {error}", where=SECTION, fix=fix) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
