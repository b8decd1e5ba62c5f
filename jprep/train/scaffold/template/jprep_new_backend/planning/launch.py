"""The worker's command and environment variables."""

from __future__ import annotations

from pathlib import Path

from jprep.train.backend import WORKER_VARIABLES, Host
from jprep_new_backend.options import Options
from jprep_new_backend.planning.layout import Layout


def worker_command(layout: Layout, run: Path) -> list[str]:
    """Return the arguments of Python."""
    return ["-m", "jprep_new_backend.worker", "train", str(run), "--micro-batch", str(layout.micro_batch)]


def worker_environment(options: Options, host: Host) -> dict[str, str]:
    """Return the worker's environment variables. Sums depend on the number of threads, so the plan decides it."""
    threads = str(options.threads or host.cores)
    return WORKER_VARIABLES | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads}
