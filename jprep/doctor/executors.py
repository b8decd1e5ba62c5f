"""Checks of what executors need."""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.metadata import PackageNotFoundError, version

from jprep.train.backend import Finding

_SECONDS = 10.0
_SLURM = re.compile(r"^slurm\S* \d\S*", re.MULTILINE)
_PBS = re.compile(r"^pbs_version\s*=\s*(\S+)", re.MULTILINE)
_GRID_ENGINE = re.compile(r"^\w*GE \d\S*", re.MULTILINE)


def check_executors() -> list[Finding]:
    """Return whether Ray is installed, and which schedulers there are. A missing one is no fault."""
    return [_ray(), _slurm(), *_schedulers_with_qsub()]


def _ray() -> Finding:
    """Return whether Ray is installed, without importing it."""
    try:
        return Finding(f"ray: Ray {version('ray')}")
    except PackageNotFoundError:
        return Finding("ray: Ray is not installed (only for several machines)", "note", "pip install 'jprep[ray]'")


def _slurm() -> Finding:
    if not shutil.which("sbatch"):
        return Finding("slurm: not found (no sbatch on PATH)")
    answer = _ask("sinfo", "--version")
    found = _SLURM.search(answer)
    return Finding(f"slurm: {found[0]}") if found else _silent("slurm: sbatch", "sinfo --version", answer)


def _schedulers_with_qsub() -> list[Finding]:
    """Return which of PBS and Grid Engine there is; their programs have the same names."""
    if not shutil.which("qsub"):
        return [Finding(f"{name}: not found (no qsub on PATH)") for name in ("pbs", "grid-engine")]
    if found := _PBS.search(_ask("qstat", "--version")):
        return [Finding(f"pbs: PBS {found[1]}"), Finding("grid-engine: not found (qsub belongs to PBS)")]
    answer = _ask("qstat", "-help")
    if found := _GRID_ENGINE.search(answer):
        return [Finding("pbs: not found (qsub belongs to Grid Engine)"), Finding(f"grid-engine: {found[0]}")]
    name = "grid-engine" if shutil.which("qconf") else "pbs or grid-engine"
    return [_silent(f"{name}: qsub", "qstat -help", answer)]


def _silent(what: str, asked: str, answer: str) -> Finding:
    """Return the finding for a scheduler that is installed and does not report its version."""
    last = answer.strip().splitlines()[-1:] or ["no answer"]
    return Finding(f"{what} was found, but `{asked}` gives no version: {last[0]}", "note")


def _ask(*command: str) -> str:
    """Return what a program prints; "" if it is missing or does not end."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout + done.stderr
