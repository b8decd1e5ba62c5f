"""Identify this host and its processes, so that hosts that share a disk tell each other apart."""

from __future__ import annotations

import contextlib
import datetime
import os
import socket
import time
from pathlib import Path

import msgspec

from jprep.io.machine import process_namespace


def host_id() -> str:
    """Return a name of this host or container that no other one has until it is restarted.

    It consists of host name, boot id and process namespace: process ids are unique in it.
    """
    return process_namespace()


def steady_clock() -> float:
    """Return seconds of a clock that nobody sets, and that also runs while the machine is suspended."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime(time.CLOCK_BOOTTIME)
    return time.monotonic()


class Holder(msgspec.Struct, frozen=True, kw_only=True):
    """A process that holds a lock, or works in a directory.

    Attributes:
        session: a random name of this holding; unique among hosts.
        host: the host's `host_id`.
        name: the host's name.
        process: its process id on that host.
        start: when the process started, in the kernel's words; "" if unknown.
        since: when it began, in UTC by that host's clock; only for messages.
        flock: where its `flock` holds: `across`, `host` or `none`.
    """

    session: str
    host: str
    name: str
    process: int
    start: str = ""
    since: str = ""
    flock: str = "host"

    def __str__(self) -> str:
        """Name it for a message."""
        return f"process {self.process} on {self.name} since {self.since}"

    @property
    def is_here(self) -> bool:
        """Whether its process ids are those of this host."""
        return self.host == host_id()

    def has_ended(self) -> bool:
        """Return whether the process is known to have ended; never for one on another host."""
        if not self.is_here:
            return False
        with contextlib.suppress(PermissionError):
            try:
                os.kill(self.process, 0)
            except ProcessLookupError:
                return True
        start = process_start(self.process)
        return start in _GONE or bool(start and self.start and start != self.start)


def describe_process(flock: str = "host") -> Holder:
    """Return this process as a holder, with a new session.

    Args:
        flock: see `Holder`.
    """
    return Holder(
        session=os.urandom(8).hex(),
        host=host_id(),
        name=socket.gethostname(),
        process=os.getpid(),
        start=process_start(os.getpid()),
        since=f"{datetime.datetime.now(datetime.UTC):%Y-%m-%d %H:%M:%S} UTC",
        flock=flock,
    )


_GONE = ("Z", "X")


def process_start(process: int) -> str:
    """Return when a process of this host started, in clock ticks since the boot.

    Returns:
        "" where that is unknown, and "Z" or "X" for a process that has ended and was not waited for.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return fields[0] if fields[0] in _GONE else fields[19]
