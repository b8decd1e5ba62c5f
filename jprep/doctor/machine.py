"""Checks of Python, memory, cores, disk and accelerators."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from jprep.io.environments import ENVIRONMENTS_VARIABLE, default_environment_folder
from jprep.io.lock import describe_locks
from jprep.io.machine import cpu_count, memory
from jprep.io.shared.file_systems import file_system_of
from jprep.train.backend import Finding
from jprep.train.planning import host

_GIB = 1 << 30
_LITTLE_MEMORY = 2 * _GIB
_FULL = 1 * _GIB
_SPACE_FOR_WORK = 20 * _GIB  # the Japanese Wikipedia: dump, corpus, dataset, a few checkpoints
_SPACE_FOR_TEMPORARY = 2 * _GIB
_SPACE_FOR_BACKENDS = 8 * _GIB  # PyTorch with CUDA's libraries
_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_TPUS = ("/dev/accel[0-9]*", "/dev/vfio/[0-9]*")


def check_python() -> list[Finding]:
    """Return the versions of Python and jprep."""
    return [
        Finding(f"Python {platform.python_version()}, {sys.executable}"),
        Finding(f"jprep {version('jprep')} on {platform.system()} {platform.machine()}"),
    ]


def check_resources() -> list[Finding]:
    """Return the cores and the memory that a container allows."""
    return [_cores(cpu_count(), _quota()), _memory(memory())]


def check_disks() -> list[Finding]:
    """Return the free space for outputs, temporary files and environments of backends."""
    return [
        _disk("outputs (--work)", Path.cwd(), _SPACE_FOR_WORK, "--work DIR on a disk with more space"),
        _disk("temporary files", Path(tempfile.gettempdir()), _SPACE_FOR_TEMPORARY, "export TMPDIR=DIR"),
        _disk(
            "backends' environments",
            default_environment_folder(),
            _SPACE_FOR_BACKENDS,
            f"export {ENVIRONMENTS_VARIABLE}=DIR",
        ),
    ]


def check_locks() -> list[Finding]:
    """Return how output directories are locked on the file system of the working directory."""
    folder = Path.cwd()
    kind = file_system_of(folder).type or "an unknown file system"
    return [Finding(f"outputs in {folder}, on {kind}: {describe_locks(folder)}")]


def check_accelerators() -> list[Finding]:
    """Return GPUs, as their driver lists them, and TPUs, by their device files."""
    found = [Finding(f"{gpu.name}, {_size(gpu.memory)}") for gpu in host.accelerators()]
    tpus = [path for pattern in _TPUS for path in sorted(Path("/").glob(pattern[1:]))]
    found += [Finding(f"TPU: {len(tpus)} device files, {tpus[0]} …")] if tpus and not found else []
    return found or [_why_none()]


def _cores(number: int, quota: float) -> Finding:
    if quota and quota < number:
        fix = f"--workers {max(1, round(quota))}"
        return Finding(f"{number} cores, of which this container may use {quota:g}", "note", fix)
    return Finding(f"{number} cores")


def _quota() -> float:
    """Return the CPU time that a container may use, in cores; 0 for no limit."""
    with suppress(OSError, ValueError):
        share, period = _QUOTA.read_text().split()
        return int(share) / int(period)
    return 0.0


def _memory(size: int) -> Finding:
    if 0 < size < _LITTLE_MEMORY:
        return Finding(f"only {_size(size)} of memory", "note", "--workers 1, and small models")
    return Finding(f"{_size(size)} of memory" if size else "unknown size of memory")


def _disk(what: str, folder: Path, enough: int, fix: str) -> Finding:
    """Return the free space for something, in its directory or the nearest existing parent."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    free = shutil.disk_usage(existing).free
    text = f"{what}: {_size(free)} free in {folder}"
    if not os.access(existing, os.W_OK):
        return Finding(f"{what}: no permission to write to {existing}", "error", fix)
    return Finding(text, "error" if free < _FULL else "note" if free < enough else "ok", fix if free < enough else "")


def _why_none() -> Finding:
    """Return why no accelerator was found: there is none, it is hidden, or its driver does not work."""
    if os.environ.get("CUDA_VISIBLE_DEVICES") is not None and shutil.which("nvidia-smi"):
        return Finding("CUDA_VISIBLE_DEVICES hides all GPUs", "note", "unset CUDA_VISIBLE_DEVICES")
    if any(Path("/dev").glob("nvidia[0-9]*")):
        return Finding(f"a GPU exists, but its driver does not work: {_complaint()}", "error", "nvidia-smi")
    return Finding("none: models are trained on the CPU")


def _complaint() -> str:
    try:
        done = subprocess.run(["nvidia-smi"], capture_output=True, text=True, errors="replace", timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return ((done.stdout + done.stderr).strip().splitlines() or ["no output"])[0]


def _size(number: int) -> str:
    return f"{number / _GIB:,.1f} GiB"
