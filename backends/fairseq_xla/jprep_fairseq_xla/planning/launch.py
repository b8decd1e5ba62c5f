"""The worker's command and environment variables."""

from __future__ import annotations

import json
from pathlib import Path

from jprep.train.backend import Host
from jprep.train.planning.machine import plans_tpu
from jprep_fairseq_xla.options import Options
from jprep_fairseq_xla.planning.fairseq_options import FairseqOptions
from jprep_fairseq_xla.planning.layout import Layout
from jprep_torch.planning.launch import torchrun_command
from jprep_torch.planning.launch import worker_environment as torch_environment
from jprep_torch.planning.xla import environment_variables, worker_flags


def worker_command(layout: Layout, run: Path, fairseq_options: FairseqOptions) -> list[str]:
    """Return the arguments of Python: torchrun where there are several processes, the worker and its arguments."""
    arguments = ["train", str(run), "--device", layout.device, *worker_flags(layout.devices, layout.hosts)]
    # All hosts run one XLA program, which takes the rows of all of them; other devices have one host.
    rows = layout.micro_batch * layout.hosts
    arguments += ["--micro-batch", str(rows), "--settings", json.dumps(fairseq_options)]
    return [*torchrun_command(layout.processes), "jprep_fairseq_xla.worker", *arguments]


def worker_environment(layout: Layout, options: Options, host: Host) -> dict[str, str]:
    """Return the worker's environment variables."""
    exact = options.deterministic
    variables = torch_environment(host, layout.device, layout.processes, options.threads, deterministic=exact)
    return variables | (environment_variables(layout.devices, tpu=plans_tpu(options)) if layout.device == "xla" else {})
