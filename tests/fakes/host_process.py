"""A process of a host of its own: `python -m tests.fakes.host_process HOST LOCK LOG STALE`.

It waits for the lock, writes `HOST begins`, waits for a line on standard input unless there is none, and writes
`HOST ends`, each only after a check; then it releases the lock. If the check fails, it writes nothing more.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from jprep.errors import MachineError
from jprep.io import lock
from jprep.io.shared import host
from jprep.io.shared.heartbeats import Timing
from jprep.io.shared.ownership import check_ownership


def become(name: str, stale: float) -> None:
    """Take this process for one of another host."""
    host.process_namespace = lambda: name
    lock.TIMING = Timing(beat=0.2, valid=stale / 3, stale=stale)


def append(log: Path, line: str) -> None:
    """Write a line at once."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(handle, f"{line}\n".encode())
    os.close(handle)


def main(name: str, path: str, log: str, stale: str) -> int:
    """Hold the lock once."""
    become(name, float(stale))
    try:
        with lock.hold_lock(Path(path), timeout=600):
            check_ownership()
            append(Path(log), f"{name} begins")
            sys.stdin.readline()
            check_ownership()
            append(Path(log), f"{name} ends")
    except MachineError as error:
        print(error.what, flush=True)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
