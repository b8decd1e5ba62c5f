"""CPU cores and memory that this process may use."""

from __future__ import annotations

import contextlib
import ctypes
import os
import socket
import sys
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Memory limits of a container: control groups, version 2 and 1."""
_KEPT = {-1: 32 << 20, -3: 8 << 20}
"""Options of malloc.h: M_TRIM_THRESHOLD, bytes that are kept, and M_MMAP_THRESHOLD, where blocks of their own begin."""


def cpu_count() -> int:
    """Return the number of CPU cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """Return the memory in bytes that the machine, the container and `ulimit -v` allow; 0 where it is unknown."""
    known = [limit for path in _LIMITS if (limit := _number(Path(path)))]
    with contextlib.suppress(OSError, ValueError):
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        known += [soft] if soft != resource.RLIM_INFINITY else []
    return min(known, default=0)


def peak_memory() -> int:
    """Return the most bytes of main memory that this process has held; 0 where it is unknown."""
    try:
        import resource
    except ImportError:
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def child_cpu_seconds() -> float:
    """Return the seconds of CPU of this process's child processes, running ones where /proc shows them."""
    total = sum(os.times()[2:4])
    for path in Path("/proc/self/task").glob("*/children"):
        with contextlib.suppress(OSError, ValueError):  # it ends meanwhile
            total += sum(map(_cpu_of, path.read_text().split()))
    return total


def _cpu_of(process: str) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def keep_freed_memory() -> None:
    """Let glibc keep some freed memory: giving the pages of a batch's arrays back and taking them again is slow.

    Does nothing with another C library.
    """
    with contextlib.suppress(AttributeError, OSError):
        set_option = ctypes.CDLL(None).mallopt
        for option, size in _KEPT.items():
            set_option(option, size)


def process_namespace() -> str:
    """Return a name of the scope in which process ids are unique: host name, boot id and process namespace.

    The host name is not enough: containers on one host may share it and have equal process ids.
    """
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - `pid:[4026531836]` is not a path
    except OSError:  # there is no /proc
        return socket.gethostname()
    return f"{socket.gethostname()}/{start}/{namespace}"


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # it does not exist, or it is "max"
        return 0
