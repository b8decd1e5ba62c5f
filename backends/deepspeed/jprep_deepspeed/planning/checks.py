"""Checks of options, and of the worker's environment, programs and port on this machine."""

from __future__ import annotations

import socket
from pathlib import Path

from jprep.errors import ConfigError
from jprep.train.backend import Backend, Finding
from jprep.train.job.config import Job
from jprep.train.launcher.import_probe import probe_output
from jprep.train.planning.checks import check_no_8bit_averages, check_ranges, inspect_environment
from jprep.train.planning.machine import check_machine
from jprep_deepspeed.options import SECTION, Options
from jprep_deepspeed.planning.launch import DEFAULT_PORT
from jprep_torch.planning.checks import find_missing_device

_VERSIONS = (
    "import torch, transformers, importlib.metadata as m;"
    "print(m.version('deepspeed'), torch.__version__, transformers.__version__, torch.cuda.device_count())"
)


def check_options(options: Options) -> None:
    """Check ranges and combinations of options.

    Raises:
        ConfigError: an option is out of range, does not go with another one, or needs another one.
    """
    check_ranges(options, SECTION, not_negative=("processes", "micro_batch", "threads", "port"))
    _check_nvme(options)
    check_machine(options, options.device, "cpu" if options.device == "cpu" else "gpu", SECTION)


def check_optimizer(job: Job, options: Options) -> None:
    """Check that DeepSpeed can shard and keep the job's optimizer.

    Raises:
        ConfigError: it cannot.
    """
    check_no_8bit_averages(job, "deepspeed")
    if job.train.optimizer.kind == "muon" and options.offload_optimizer == "nvme":
        what = 'optimizer.kind = "muon" is not supported with an optimizer state in files: offload_optimizer = "nvme"'
        raise ConfigError(what, where=f"{SECTION}.offload_optimizer", fix='keep it in main memory: "cpu"')


def _check_nvme(options: Options) -> None:
    if options.offload_optimizer == "nvme" and not Path(options.nvme_path).is_absolute():
        given = f"{options.nvme_path!r} is relative" if options.nvme_path else "none is given"
        what = f'offload_optimizer = "nvme" needs the absolute path of a directory on a local disk: {given}'
        raise ConfigError(what, where=f"{SECTION}.nvme_path", fix='for example nvme_path = "/scratch/swap"')


def environment_findings(backend: Backend, options: Options) -> list[Finding]:
    """Return the versions in the worker's environment, and what would make a run fail.

    Args:
        backend: the planner.
        options: its options.
    """

    def describe(python: Path) -> list[Finding]:
        deepspeed, torch, transformers, gpus = _versions(python).split()
        versions = f"DeepSpeed {deepspeed}, PyTorch {torch}, transformers {transformers}, {gpus} usable GPUs"
        return [Finding(versions), *find_missing_device(options, options.device, "GPU", int(gpus)), *_port(options)]

    return inspect_environment(backend, options, describe)


def _versions(python: Path) -> str:
    return probe_output(python, _VERSIONS)


def _port(options: Options) -> list[Finding]:
    """Return an error if the port is in use. torchrun finds a free one, and another host's cannot be checked here."""
    if options.hosts or (options.launcher == "torchrun" and not options.port):
        return []
    port = options.port or DEFAULT_PORT
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            fix = f"set {SECTION}.port to another one, or to 0 with torchrun to use a free one"
            return [Finding(f"port {port} is not available: {error.strerror}", "error", fix)]
    return []
