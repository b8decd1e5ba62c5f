"""Detect, after an attempt, whether its worker died because it ran out of memory."""

from __future__ import annotations

import re
import time
from pathlib import Path
from signal import SIGKILL

from jprep.io.machine import memory
from jprep.train.run.events import EVENTS
from jprep.train.run.log import LOG
from jprep.train.run.ranks import live_ranks
from jprep.train.worker.out_of_memory import MESSAGE_LENGTH, MESSAGES

_TAIL = 1 << 16  # bytes of the log to search
_SIGKILL_CODES = (-SIGKILL, 128 + SIGKILL)
_COUNTERS = (Path("/sys/fs/cgroup/memory.events"), Path("/proc/vmstat"))
"""Where the kernel counts the processes that its OOM killer ended: of this container, else of the host."""

_COUNT = re.compile(r"^oom_kill (\d+)$", re.MULTILINE)

_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)
_MEASURE_SECONDS = 0.25

_HARMLESS = "caller indicates that this is not a failure"  # XLA's allocator, before it retries with a smaller block
_KILLED = re.compile(r"SIGKILL|return code = -9\b|: Killed\b")
"""How torchrun, DeepSpeed's launcher and srun report a worker that SIGKILL ended."""

_FATAL = re.compile(
    r"terminate called|  what\(\):|\[enforce fail at|F\d{4} |F external/|Fatal Python error"
    r"|[A-Za-z_][\w.]*(?:Error|Exception)\b|RESOURCE_EXHAUSTED|CUDA out of memory|libc\+\+abi"
)
"""How lines begin that a dying process prints: of C++, PyTorch, XLA's log, and the last line of a traceback."""

_RANK = re.compile(r"^\[rank\d+\]: ")  # torchrun's prefix; source lines of a traceback are indented after it


class MemoryWatch:
    """Detects whether a worker died because it ran out of memory, if the worker could not report that itself.

    Create it before the attempt starts, and call `poll` regularly while the worker runs.

    Args:
        run: the run directory.
    """

    def __init__(self, run: Path) -> None:
        self._log, self._events = run / LOG, run / EVENTS
        self._run, self._killed = run, kernel_kills()
        self._held, self._measured = 0, 0.0
        self._start = self._log_size = _size(self._log)
        self._events_size = _size(self._events)

    def poll(self) -> None:
        """Skip what the log held before the run's newest event: the worker survived those messages."""
        events = _size(self._events)
        if events > self._events_size:
            self._start = self._log_size  # the size at the previous call, so before that event
        self._events_size, self._log_size = events, _size(self._log)
        if time.monotonic() - self._measured > _MEASURE_SECONDS:
            self._measured = time.monotonic()
            self._held = max(self._held, sum(map(_peak, live_ranks(self._run))))

    def written(self) -> str:
        """Return what the worker has written to the log since the run's newest event, at most the last 64 KiB."""
        return _read_from(self._log, self._start)

    def reason(self, code: int, processes: int) -> str:
        """Return the message that shows that memory was full, or "" if there is none.

        Args:
            code: the exit code of the worker or its launcher; negative for a signal.
            processes: the number of processes; if there are several, only the log may show how one of them ended.
        """
        if code == 0:
            return ""
        written = self.written()
        killed = code in _SIGKILL_CODES or (processes > 1 and _KILLED.search(written))
        if killed and kernel_kills() > self._killed:
            held = (
                f"; the workers held up to {self._held / 1e9:.2f} GB of {memory() / 1e9:.2f} GB" if self._held else ""
            )
            return f"the kernel killed a worker because memory was full (SIGKILL by the OOM killer){held}"
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
    """Return whether a line of a log ends a process because memory is full.

    Workers record the errors that they can catch as events. What is left are messages of the C and C++ libraries, fatal
    lines of XLA's log, and exceptions outside of a training: other lines, which may quote anything, do not count.
    """
    return _FATAL.match(line) is not None and _HARMLESS not in line and MESSAGES.search(line) is not None


def _peak(process: int) -> int:
    """Return the most bytes of main memory that a process has held; 0 if unknown."""
    try:
        found = _PEAK.search(Path(f"/proc/{process}/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


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
