"""Run a backend's worker that measures a checkpoint: a run directory of its own, the process, and what it reports."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import encode_checksummed
from jprep.errors import ConfigError, InputError, JprepError, MachineError
from jprep.io.atomic import write_atomic
from jprep.io.lock import hold_lock
from jprep.train.backend import Plan
from jprep.train.evaluation.weights import MeasuredWeights
from jprep.train.hooks.config import HOOKS
from jprep.train.job.config import Job
from jprep.train.launcher.memory_watch import MemoryWatch
from jprep.train.launcher.signals import signal_name
from jprep.train.launcher.silence import Silence
from jprep.train.run.attempt import ATTEMPT, EVALUATE, NO_ATTEMPT, RESUME, announce_attempt
from jprep.train.run.directory import JOB, LOCK, write_plan
from jprep.train.run.events import first_failure, read_events
from jprep.train.run.log import log_tail, start_logged
from jprep.train.run.ranks import clear_ranks, kill_group
from jprep.train.worker.out_of_memory import out_of_memory

_ERRORS = {kind.exit_code: kind for kind in (ConfigError, MachineError, InputError)}
_FIX = "see the end of its output above; `jprep doctor` checks the backend"


def link_run(work: Path, run: Path, job: Job, weights: MeasuredWeights) -> None:
    """Make a run directory with weights of another run, and a job with other data.

    Args:
        work: an empty directory.
        run: the other run's directory.
        job: the job; its paths are absolute.
        weights: those of the other run.
    """
    write_atomic(work / JOB, encode_checksummed(job))
    (work / weights.path).parent.mkdir(exist_ok=True)
    (work / weights.path).symlink_to((run / weights.path).resolve())
    if (run / HOOKS).is_dir():
        (work / HOOKS).symlink_to((run / HOOKS).resolve())


def measure(work: Path, job: Job, plan: Plan, weights: MeasuredWeights, split: str) -> dict[str, float | None]:
    """Start the worker in a directory of `link_run`, and return the figures of its validation.

    Args:
        work: the directory.
        job: the job.
        plan: how the worker is started there.
        weights: the weights.
        split: the split to measure.

    Raises:
        JprepError: the worker could not measure it; the message is that of the worker.
    """
    attempt = secrets.token_hex(8)
    env = {ATTEMPT: attempt, RESUME: weights.checkpoint, EVALUATE: split}
    plan = msgspec.structs.replace(plan, env=plan.env | env)
    write_plan(work, plan)
    with hold_lock(work / LOCK):  # a worker whose attempt is not announced in it exits
        announce_attempt(work, attempt)
        memory = MemoryWatch(work)
        with _started(work, plan) as process:
            silent = _wait(process, Silence(work), memory, 60 * job.train.silent_minutes)
    figures = next((event.figures for event in read_events(work) if event.kind == "validation"), None)
    if figures is None:
        raise _failure(work, job, plan, weights, process.returncode, memory, silent=silent)
    return figures


@contextlib.contextmanager
def _started(work: Path, plan: Plan) -> Iterator[subprocess.Popen[bytes]]:
    """Start the worker. None of its processes is left after the block."""
    process = start_logged(work, plan.argv, {**os.environ, **plan.env})
    try:
        yield process
    finally:
        try:
            announce_attempt(work, NO_ATTEMPT)
        finally:
            kill_group(process)
        clear_ranks(work)  # launchers start them in groups of their own


def _wait(process: subprocess.Popen[bytes], silence: Silence, memory: MemoryWatch, longest: float) -> bool:
    """Wait for the worker's end; return whether it has shown no sign of life for too long."""
    while process.poll() is None:
        memory.poll()
        silence.poll()
        if silence.seconds > longest:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(0.05)
    return False


def _failure(
    work: Path, job: Job, plan: Plan, weights: MeasuredWeights, code: int, memory: MemoryWatch, *, silent: bool
) -> JprepError:
    """Return the error of a worker that measured nothing."""
    if not (work / weights.path).exists():
        what, fix = "the weights were deleted during the evaluation", "run the same command again"
        return MachineError(what, where=str(work / weights.path), fix=fix)
    if first := first_failure(read_events(work)):
        return _ERRORS.get(int(first.figures["code"] or 1), JprepError)(first.note)
    if not silent and (why := memory.reason(code, plan.processes)):
        return out_of_memory(work, job, weights.step, why)
    how = f"ended with code {code}" if code >= 0 else f"was killed by {signal_name(-code)}"
    how = f"showed no sign of life for {job.train.silent_minutes:g} minutes" if silent else how
    output = log_tail(work).strip()
    return MachineError(f"the worker of {job.backend} {how}: {output or 'its output is empty'}", fix=_FIX)
