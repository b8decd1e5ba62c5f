"""Errors of a worker that ran out of memory, with the micro-batch that would fit."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from jprep.errors import ConfigError, JprepError, MachineError
from jprep.io.machine import memory
from jprep.train.backend import MicroBatchEstimate, Plan, Target
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import fits_memory
from jprep.train.run.directory import read_plan
from jprep.train.worker.memory_shortage import MemoryShortage, find_shortage, names_memory

if TYPE_CHECKING:
    from jprep.train.worker.session import Session

OUT_OF_MEMORY = "out_of_memory"
"""The metric of an `end` event that marks this error."""

ON_DEVICE = "on_device"
"""The metric that is 1 if the memory of a device was full, and 0 if main memory was."""

MESSAGE_LENGTH = 160
"""How many characters of a framework's message are shown."""

MESSAGES = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED"
    r"|ALLOC_FAILED|_ArrayMemoryError|Unable to allocate \S+ \w+ for an array|\bMemoryError\b|std::bad_alloc"
    r"|[Cc]annot allocate memory|failed to allocate memory",
    re.IGNORECASE,
)
"""Messages of PyTorch on CPUs and GPUs, XLA, NumPy, the C++ library and the operating system."""

_GB = 1e9

_SAVINGS = {
    "gradient_checkpointing": "gradient_checkpointing = true",
    "stage": "a higher stage or an offload",
    "shard": 'several processes with shard = "yes"',
    "fsdp": "fsdp over several devices",
}
"""Options of backends → what reduces memory."""


class OutOfMemoryError(MachineError):
    """A worker ran out of memory.

    Attributes:
        shortage: which memory, and how much was asked for; None if unknown.
    """

    shortage: MemoryShortage | None = None


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception, or one of its causes, reports that memory is full."""
    return any(
        isinstance(one, MemoryError)
        or (isinstance(one, OSError) and one.errno == errno.ENOMEM)
        or (isinstance(one, RuntimeError) and MESSAGES.search(f"{type(one).__name__}: {one}"))
        or type(one).__name__ == "ResourceExhaustedError"  # TensorFlow's
        for one in _chain(error)
    )


def out_of_memory(run: Path, job: Job, step: int, reason: str) -> OutOfMemoryError:
    """Return the error of a worker that ran out of memory.

    Args:
        run: the run directory.
        job: the job.
        step: the step being computed, or the last known one.
        reason: the message of the framework or the kernel.
    """
    first = (reason.strip().splitlines() or ["no message"])[0][:MESSAGE_LENGTH]
    plan = _plan(run)
    shortage = find_shortage(reason, on_host=bool(plan and plan.target and plan.target.on_host))
    offloaded = shortage.memory == "host" and plan is not None and plan.target is not None and not plan.target.on_host
    advice = host_advice(job, plan) if offloaded and plan else memory_advice(job, plan)
    what = f"out of memory at step {step}: {shortage}: {first}"
    error = OutOfMemoryError(what, where=f"train.backend.{job.backend}", fix=advice)
    error.shortage = shortage
    return error


@contextlib.contextmanager
def memory_errors(session: Session) -> Iterator[None]:
    """Translate a framework's error about full memory into one that names the micro-batch that would fit.

    Args:
        session: the worker's session.

    Raises:
        OutOfMemoryError: the block ran out of memory.
    """
    try:
        yield
    except JprepError:
        raise
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        reason = next((str(one) for one in _chain(error) if names_memory(str(one))), str(error)) or type(error).__name__
        raise out_of_memory(session.run, session.job, session.step, reason) from error


def end_figures(error: JprepError) -> dict[str, float]:
    """Return the metrics of an `end` event: the exit code, and whether memory was full."""
    found: dict[str, float] = {"code": error.exit_code}
    if not isinstance(error, OutOfMemoryError):
        return found
    found[OUT_OF_MEMORY] = 1.0
    if error.shortage:
        found |= {ON_DEVICE: float(error.shortage.memory == "device"), "requested": error.shortage.requested}
    return found


def memory_advice(job: Job, plan: Plan | None) -> str:
    """Name the micro-batch that would fit by the plan's estimates, and options that reduce memory.

    Args:
        job: the job.
        plan: how it was run; None if unknown.
    """
    where, others = f"train.backend.{job.backend}.micro_batch", _other_savings(job, plan)
    if plan is None:
        return f"a smaller {where}, train.length or model{others}"
    if not plan.smaller:
        return f"the micro-batch is one row already: a smaller train.length or model{others}"
    target = _target_now(plan)
    chosen = next((one for one in plan.smaller if _may_fit(target, one)), None)
    if chosen is None:
        least = plan.smaller[-1]
        what = f"no micro-batch fits: {where} = {least.rows} takes about {least.memory / _GB:.2f} GB per process"
        return f"{what} of {target.memory / _GB:.2f} GB, estimated; a smaller train.length or model{others}"
    estimate = f"about {chosen.memory / _GB:.2f} GB per process instead of {plan.memory / _GB:.2f} GB, estimated"
    return f"--set {where}={chosen.rows} ({estimate}){others}"


def host_advice(job: Job, plan: Plan) -> str:
    """Name what reduces main memory of a run that computes on devices.

    Args:
        job: the job.
        plan: how it was run.
    """
    ways = [f"fewer processes on this machine (now {plan.processes})"] if plan.processes > plan.machines else []
    if plan.host_memory:
        chosen = next((one for one in plan.smaller if _may_fit(_target_now(plan), one)), None)
        needed = f"about {plan.host_memory / _GB:.2f} GB of main memory per process, estimated"
        ways = [f"no offload to main memory, which takes {needed}", *ways]
        if chosen and chosen.host_memory < plan.host_memory:
            ways.append(f"--set train.backend.{job.backend}.micro_batch={chosen.rows}")
    return "; or ".join([*ways, "a machine with more main memory (a smaller micro-batch saves that of devices only)"])


def _target_now(plan: Plan) -> Target:
    """Return the plan's devices with the memory that a process may use now, which a limit can have reduced."""
    target = plan.target or Target(name="", kind="cpu")
    if not target.on_host:
        return target
    now = memory() // max(1, plan.processes // plan.machines)
    return msgspec.structs.replace(target, memory=min((one for one in (now, target.memory) if one), default=0))


def _may_fit(target: Target, batch: MicroBatchEstimate) -> bool:
    return fits_memory(target, batch.memory, batch.host_memory) is not False


def _other_savings(job: Job, plan: Plan | None) -> str:
    """Name options that reduce memory. Sharding among processes of one host does not: they share its memory."""
    on_host = bool(plan and plan.target and plan.target.on_host)
    names = ["gradient_checkpointing"] if on_host else list(_SAVINGS)
    ways = [_SAVINGS[name] for name in names if job.options.get(name, True) in (False, 0, "auto", "no")]
    return f"; or {', or '.join(ways)}" if ways else ""


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and its causes."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _plan(run: Path) -> Plan | None:
    try:
        return read_plan(run)
    except (ConfigError, OSError):
        return None
