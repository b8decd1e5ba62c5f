"""Starts a worker for each of a machine's TPUs: `python -m jprep_torch.on_tpus COUNT MODULE …`.

torch_tpu wants to know, before any of them begins, which ports they find each other at; torchrun starts them then.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import torch
from torch.distributed.run import main as torchrun

from jprep.errors import MachineError
from jprep.train.log import on_stderr


def main(arguments: Sequence[str]) -> int:
    """Run so many workers to their end; 3 where there are not so many TPUs."""
    count, *command = arguments
    found = torch.accelerator.device_count()
    if str(torch.accelerator.current_accelerator()) != "tpu" or found < int(count):
        where = "train.backend.torch.processes"
        on_stderr(f"jprep: {MachineError(f'torch_tpu finds {found} TPUs, and the plan has {count}', where=where)}")
        return MachineError.exit_code
    torch.tpu.distributed.set_tpu_launch_env(nproc_per_node=int(count))
    torchrun(["--standalone", "--nproc-per-node", count, "-m", *command])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
