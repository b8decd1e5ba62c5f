"""Name the process that has locked a file, for messages."""

from __future__ import annotations

import contextlib
import datetime
import os
from pathlib import Path

import msgspec

from jprep.io.shared.heartbeats import list_beats, read_beat
from jprep.io.shared.host import Holder, describe_process
from jprep.io.shared.lease import lease_folder

_LOCKS = Path("/proc/locks")
_STAT = Path("/proc/stat")


def describe_owner(path: Path) -> str:
    """Return who holds a lock, to be put after a message: `: process 7 on node1 since …`; "" if unknown.

    Args:
        path: the lock file.
    """
    with contextlib.suppress(OSError, ValueError):
        for name in list_beats(lease_folder(path)):
            if (beat := read_beat(lease_folder(path) / name)) and beat.holder:
                return f": {beat.holder}"
        if process := _flock_owner(path):
            return f": {_described(process)}"
    return ""


def _flock_owner(path: Path) -> int:
    """Return the process of this host that has locked a file by `flock`; 0 if it is unknown."""
    status = path.stat()
    place = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in _LOCKS.read_text().splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and fields[3] == "WRITE" and fields[5] == place:
            return int(fields[4])
    return 0


def _described(process: int) -> Holder:
    ticks = int(Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[19])
    booted = next(int(line.split()[1]) for line in _STAT.read_text().splitlines() if line.startswith("btime "))
    began = datetime.datetime.fromtimestamp(booted + ticks / os.sysconf("SC_CLK_TCK"), datetime.UTC)
    since = f"{began:%Y-%m-%d %H:%M:%S} UTC"
    return msgspec.structs.replace(describe_process(), process=process, since=since)
