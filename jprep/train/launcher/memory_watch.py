"""Detect, after an attempt, whether its worker died because it ran out of memory."""

from __future__ import annotations

import re
from pathlib import Path
from signal import SIGKILL

from jprep.train.run.events import EVENTS
from jprep.train.run.log import LOG
from jprep.train.worker.out_of_memory import MESSAGE_LENGTH, MESSAGES

_TAIL = 1 << 16  # bytes of the log to search
_SIGKILL_CODES = (-SIGKILL, 128 + SIGKILL)
_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
"""Where the kernel counts the processes that its OOM killer ended: of this container, else of the host."""

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

_HARMLESS = "caller indicates that this is not a failure"  # XLA's allocator, before it retries with a smaller block
_KILLED = re.compile(r"SIGKILL|return code = -9\b|: Killed\b")
"""How torchrun, DeepSpeed's launcher and srun report a worker that SIGKILL ended."""

_RANK = re.compile(r"^\[rank\d+\]: ")  # torchrun's prefix; source lines of a traceback are indented after it


class MemoryWatch:
    """Detects whether a worker died because it ran out of memory, if the worker could not report that itself.

    Create it before the attempt starts, and call `observe` regularly while the worker runs.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._log, self._events = run / LOG, run / EVENTS
        self._killed = kernel_kills()
        self._start = self._log_size = _size(self._log)
        self._events_size = _size(self._events)

    def observe(self) -> None:
        """Skip what the log held before the run's newest event: the worker survived those messages."""
        events = _size(self._events)
        if events > self._events_size:
            self._start = self._log_size  # the size at the previous call, so before that event
        self._events_size, self._log_size = events, _size(self._log)

    def reason(self, code: int, processes: int) -> str:
        """Return the message that shows that memory was full, or "" if there is none.

        Args:
            code: the exit code of the worker or its launcher; negative for a signal.
            processes: the number of processes; if there are several, only the log may show how one of them ended.
        """
        if code == 0:
            return ""
        written = _read_from(self._log, self._start)
        killed = code in _SIGKILL_CODES or (processes > 1 and _KILLED.search(written))
        if killed and kernel_kills() > self._killed:
            return "the kernel killed a worker because memory was full (SIGKILL by the OOM killer)"
        lines = (_RANK.sub("", line) for line in reversed(written.splitlines()))
        return next((line[:MESSAGE_LENGTH] for line in lines if _is_memory_error(line)), "")


def kernel_kills() -> int:
    """Return how many processes the kernel has killed because memory was full; 0 if unknown."""
    for path in _COUNTERS:
        try:
            if match := _COUNT.search(path.read_text()):
                return int(match[1])
        except OSError:
            continue
    return 0


def _is_memory_error(line: str) -> bool:
    """Return whether a line of a log reports that memory is full; source lines of tracebacks do not count."""
    return not line[:1].isspace() and _HARMLESS not in line and MESSAGES.search(line) is not None


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _read_from(log: Path, start: int) -> str:
    """Return the log from an offset on, at most its last 64 KiB; if it was truncated meanwhile, from its beginning."""
    size = _size(log)
    start = max(start if start <= size else 0, size - _TAIL)
    try:
        with log.open("rb") as file:
            file.seek(start)
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""
