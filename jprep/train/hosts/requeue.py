"""Requeue the job that this process runs in. It imports little: jprep may do so while it still starts."""

from __future__ import annotations

import os

REQUEUE, SLURM = "JPREP_REQUEUE", "slurm"
"""Environment variable of a job: the scheduler that requeues it, if jprep submitted it; and its only value."""

_TIMEOUT = 60.0


def can_requeue() -> bool:
    """Return whether this process runs in a job that it may requeue."""
    return os.environ.get(REQUEUE) == SLURM


def was_requeued() -> bool:
    """Return whether this process runs in a job of Slurm that was requeued: the same command has run before."""
    return os.environ.get("SLURM_RESTART_COUNT", "0") not in ("", "0")


def requeue_job() -> str:
    """Let the scheduler start this job again, if `JPREP_REQUEUE` names it.

    Returns:
        What was done, for the user; "" in other processes.
    """
    job = os.environ.get("SLURM_JOB_ID", "")
    if not job or not can_requeue():
        return ""
    import subprocess

    command = ["scontrol", "requeue", job]
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"job {job} was not requeued: {error}"
    return f"job {job} was requeued" if done.returncode == 0 else f"job {job} was not requeued: {done.stderr.strip()}"
