"""Recognises a worker that ran out of memory, and says which micro-batch would fit."""

from __future__ import annotations

import contextlib
import errno
import re
from collections.abc import Iterator
from pathlib import Path
from signal import SIGKILL
from typing import TYPE_CHECKING

import msgspec

from jprep.errors import ConfigError, JprepError, MachineError
from jprep.io.machine import memory
from jprep.train.backend import MicroBatchEstimate, Plan, Target
from jprep.train.job.config import Job
from jprep.train.planning.memory_fit import fits_memory
from jprep.train.run.directory import read_plan
from jprep.train.run.log import LOG

if TYPE_CHECKING:
    from jprep.train.worker.session import Session

OUT_OF_MEMORY = "out_of_memory"
"""The figure of an `end` event that says so."""

_GB = 1e9
_SHOWN = 160  # characters of a framework's message
_READ = 1 << 16  # bytes of a log's end
_KILLED = (-SIGKILL, 128 + SIGKILL)
_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
"""Where the kernel counts the processes that it ended for lack of memory: this container's, else the machine's."""

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

# PyTorch on CPUs and GPUs, XLA, NumPy, the C++ library, the operating system.
_FULL = re.compile(
    r"DefaultCPUAllocator: (?:can't allocate|not enough) memory|out of memory|OutOfMemoryError|RESOURCE_EXHAUSTED"
    r"|ALLOC_FAILED|_ArrayMemoryError|Unable to allocate \S+ \w+ for an array|\bMemoryError\b|std::bad_alloc"
    r"|[Cc]annot allocate memory|failed to allocate memory",
    re.IGNORECASE,
)

_HARMLESS = "caller indicates that this is not a failure"  # XLA's allocator, before it tries a smaller block
_ENDED = re.compile(r"SIGKILL|return code = -9\b|: Killed\b")
"""What torchrun, DeepSpeed's launcher and srun say of a worker that SIGKILL ended."""

_RANK = re.compile(r"^\[rank\d+\]: ")  # torchrun's; behind it, source lines of a traceback are indented

_WAYS = {
    "recompute": "recompute = true",
    "stage": "a higher stage or an offload",
    "shard": 'several processes with shard = "yes"',
    "fsdp": "fsdp over several devices",
}
"""Options of backends → what takes less memory."""


class MemoryWatch:
    """Tells after an attempt whether its worker died for lack of memory, where the worker itself could not say so.

    Make it before the attempt starts.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._log = run / LOG
        self._killed, self._written = kernel_kills(), _size(self._log)

    def reason(self, code: int, processes: int) -> str:
        """Return what happened, or "" where it was not memory.

        Args:
            code: the exit code of the worker or its launcher; negative for a signal.
            processes: how many the launcher started: with several, only the log may say how one ended.
        """
        if code == 0:
            return ""
        written = _since(self._log, self._written)
        killed = code in _KILLED or (processes > 1 and _ENDED.search(written))
        if killed and kernel_kills() > self._killed:
            return "the kernel killed a worker because memory was full (SIGKILL by the OOM killer)"
        lines = (_RANK.sub("", line) for line in reversed(written.splitlines()))
        return next((line[:_SHOWN] for line in lines if _tells_it(line)), "")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception, or one that it came from, says that memory is full."""
    return any(
        isinstance(one, MemoryError)
        or (isinstance(one, OSError) and one.errno == errno.ENOMEM)
        or (isinstance(one, RuntimeError) and _FULL.search(f"{type(one).__name__}: {one}"))
        for one in _chain(error)
    )


class OutOfMemoryError(MachineError):
    """A worker ran out of memory."""


def out_of_memory(run: Path, job: Job, step: int, reason: str) -> OutOfMemoryError:
    """Return the error of a worker that ran out of memory.

    Args:
        run: the run directory.
        job: the job.
        step: the one being computed, or the last one that is known.
        reason: the framework's or the kernel's message.
    """
    first = (reason.strip().splitlines() or ["no message"])[0][:_SHOWN]
    where = f"train.backend.{job.backend}"
    return OutOfMemoryError(f"out of memory at step {step}: {first}", where=where, fix=memory_advice(job, _plan(run)))


@contextlib.contextmanager
def memory_errors(run: Path, session: Session) -> Iterator[None]:
    """Raise what a framework raises where memory is full as an error that says which micro-batch would fit.

    Args:
        run: the run directory.
        session: the worker's.

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
        raise out_of_memory(run, session.job, session.step, str(error) or type(error).__name__) from error


def end_figures(error: JprepError) -> dict[str, float]:
    """Return the figures of an `end` event: the exit code, and whether memory was full."""
    found: dict[str, float] = {"code": error.exit_code}
    return found | ({OUT_OF_MEMORY: 1.0} if isinstance(error, OutOfMemoryError) else {})


def memory_advice(job: Job, plan: Plan | None) -> str:
    """Say which micro-batch would fit, by the plan's estimates, and what else takes less memory.

    Args:
        job: the job.
        plan: how it was run; None where that is not known.
    """
    where, others = f"train.backend.{job.backend}.rows", _others(job, plan)
    if plan is None:
        return f"fewer rows ({where}), a smaller train.length or model{others}"
    if not plan.smaller:
        return f"one row goes through the model at a time already: a smaller train.length or model{others}"
    target = _target(plan)
    chosen = next((one for one in plan.smaller if _may_hold(target, one)), None)
    if chosen is None:
        least = plan.smaller[-1]
        what = f"no micro-batch fits: with {where} = {least.rows} it takes about {least.memory / _GB:.2f} GB a process"
        return f"{what} of {target.memory / _GB:.2f} GB, estimated; a smaller train.length or model{others}"
    estimate = f"about {chosen.memory / _GB:.2f} GB a process instead of {plan.memory / _GB:.2f} GB, estimated"
    return f"--set {where}={chosen.rows} ({estimate}){others}"


def _target(plan: Plan) -> Target:
    """Return the plan's devices with the memory that a process may use now, which a limit can have made less."""
    target = plan.target or Target(name="", kind="cpu")
    if not target.on_host:
        return target
    now = memory() // max(1, plan.processes // plan.machines)
    return msgspec.structs.replace(target, memory=min((one for one in (now, target.memory) if one), default=0))


def _may_hold(target: Target, batch: MicroBatchEstimate) -> bool:
    return fits_memory(target, batch.memory, batch.host_memory) is not False


def _others(job: Job, plan: Plan | None) -> str:
    """Say which options take less memory; processes of one host share it, so dividing the model among them does not."""
    on_host = bool(plan and plan.target and plan.target.on_host)
    names = ["recompute"] if on_host else list(_WAYS)
    ways = [_WAYS[name] for name in names if job.options.get(name, True) in (False, 0, "auto", "no")]
    return f"; or {', or '.join(ways)}" if ways else ""


def kernel_kills() -> int:
    """Return how many processes the kernel has ended because memory was full; 0 where it does not say."""
    for path in _COUNTERS:
        try:
            if match := _COUNT.search(path.read_text()):
                return int(match[1])
        except OSError:
            continue
    return 0


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that caused it."""
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


def _tells_it(line: str) -> bool:
    """Return whether a line of a log is an error that says that memory is full, not a source line of a traceback."""
    return not line[:1].isspace() and _HARMLESS not in line and _FULL.search(line) is not None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _since(log: Path, start: int) -> str:
    """Return what a log has from a position on, at most its last 64 KiB; all of its end if it was cut meanwhile."""
    size = _size(log)
    start = max(start if start <= size else 0, size - _READ)
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
