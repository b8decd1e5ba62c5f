"""What a run would find on this machine: versions, devices, programs, a port that is taken."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

from jprep.errors import JprepError
from jprep.train.backend import Backend, Finding
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.import_probe import probe_output
from jprep.train.planning.host import accelerators
from jprep_deepspeed.options import SECTION, Options
from jprep_deepspeed.planning.launch import DEFAULT_PORT

_ABOUT = (
    "import torch, transformers, importlib.metadata as m;"
    "print(m.version('deepspeed'), torch.__version__, transformers.__version__, torch.cuda.device_count())"
)


def findings(half: Backend, options: Options) -> list[Finding]:
    """What is well and what is not.

    Args:
        half: the backend.
        options: its options.
    """
    fix = f"jprep backends install {half.name} --restart"
    try:
        versions = _ask(worker_python(half, options))
    except JprepError as error:
        return [Finding(error.what, "error", error.fix or fix)]
    deepspeed, torch, transformers, gpus = versions.split()
    what = f"DeepSpeed {deepspeed}, PyTorch {torch}, transformers {transformers}, {gpus} GPUs that it can use"
    return [Finding(what), *_device(options, gpus), *_programs(options), *_port(options)]


def _ask(python: Path) -> str:
    return probe_output(python, _ABOUT)


def _device(options: Options, gpus: str) -> list[Finding]:
    if gpus != "0" or not (options.device == "cuda" or options.gpu or (options.device == "auto" and accelerators())):
        return []
    if options.gpu:
        return [Finding(f"planned for {options.gpu}, and PyTorch finds no GPU on this machine", "note")]
    fix = 'device = "cpu", or a PyTorch that is built for this GPU'
    return [Finding("PyTorch finds no GPU", "error", fix)]


def _programs(options: Options) -> list[Finding]:
    """Those that start processes on other hosts."""
    needed = [] if not options.hosts else ["srun"] if options.hosts == "slurm" else ["pdsh", "ssh"]
    fix = "install Slurm's client, or run it inside the cluster" if "srun" in needed else "install pdsh and OpenSSH"
    return [Finding(f"there is no {name} here", "error", fix) for name in needed if not shutil.which(name)]


def _port(options: Options) -> list[Finding]:
    """Whether the port is free; torchrun finds one itself, and another host's is not for this one to see."""
    if options.hosts or (options.launcher == "torchrun" and not options.port):
        return []
    port = options.port or DEFAULT_PORT
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind(("127.0.0.1", port))
        except OSError as error:
            fix = f"{SECTION}.port = another one; 0 and torchrun find one that is free"
            return [Finding(f"the port {port} cannot be had: {error.strerror}", "error", fix)]
    return []
