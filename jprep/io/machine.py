"""What this machine has, as far as this process may use it."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Where the kernel says what a container may take: control groups, version 2 and 1."""


def cpu_count() -> int:
    """The processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def memory() -> int:
    """The machine's memory in bytes, or what a container or `ulimit -v` leaves of it; 0 where it is not known."""
    known = [limit for path in _LIMITS if (limit := _number(Path(path)))]
    with contextlib.suppress(OSError, ValueError):
        known.append(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        known += [soft] if soft != resource.RLIM_INFINITY else []
    return min(known, default=0)


def process_namespace() -> str:
    """Return what a process id is unique in: the host's name, its start, and the namespace of its processes.

    A host's name would not do: containers on one host may share it, and their process ids are equal.
    """
    try:
        start = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - `pid:[4026531836]` is no path
    except OSError:  # there is no /proc
        return socket.gethostname()
    return f"{socket.gethostname()}/{start}/{namespace}"


def _number(path: Path) -> int:
    try:
        return int(path.read_text())
    except (OSError, ValueError):  # there is none, or it says "max"
        return 0
