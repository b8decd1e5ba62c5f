"""Small files in `ranks/` by which the hosts of an attempt exchange their state.

Each file has one writer, which overwrites a line of fixed length in place. Readers open files with O_CREAT: a network
file system may show an absent file as absent for a minute, but not after that.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import NamedTuple

from jprep.train.run.ranks import RANKS

CANNOT_START = 255
"""The code of a host on which no launcher could be started; ssh's."""

_LENGTH = 255
_STOP = "stop"


class HostState(NamedTuple):
    """The state of the launcher on one host.

    Attributes:
        beat: a number that grows while it lives.
        code: the exit code of its processes; None while they run.
        name: the host's own name.
    """

    beat: int
    code: int | None
    name: str


class Meeting(NamedTuple):
    """Where the ranks of an attempt connect to rank 0."""

    address: str
    port: int


def write_host_state(run: Path, attempt: str, number: int, state: HostState) -> None:
    """Write the state of a host's launcher.

    Raises:
        OSError: the file cannot be written.
    """
    code = "-" if state.code is None else str(state.code)
    _write(_host_path(run, attempt, number), f"{state.beat} {code} {state.name}")


def read_host_state(run: Path, attempt: str, number: int) -> HostState | None:
    """Return the state of a host's launcher; None if it has not written any."""
    beat, _, rest = _read(_host_path(run, attempt, number)).partition(" ")
    code, _, name = rest.partition(" ")
    return HostState(int(beat), None if code == "-" else int(code), name) if beat.isdecimal() else None


def write_meeting(run: Path, attempt: str, meeting: Meeting) -> None:
    """Write where rank 0 of an attempt listens.

    Raises:
        OSError: the file cannot be written.
    """
    _write(run / RANKS / f"meet-{attempt}", f"{meeting.port} {meeting.address}")


def read_meeting(run: Path, attempt: str) -> Meeting | None:
    """Return where rank 0 of an attempt listens; None if that is not known yet."""
    port, _, address = _read(run / RANKS / f"meet-{attempt}").partition(" ")
    return Meeting(address, int(port)) if port.isdecimal() else None


def request_stop(run: Path, attempt: str) -> None:
    """Ask the launcher of rank 0 to let its processes save and stop.

    Raises:
        OSError: the file cannot be written.
    """
    _write(run / RANKS / f"{_STOP}-{attempt}", _STOP)


def stop_requested(run: Path, attempt: str) -> bool:
    """Return whether the processes of an attempt have been asked to stop."""
    return _read(run / RANKS / f"{_STOP}-{attempt}") == _STOP


def _host_path(run: Path, attempt: str, number: int) -> Path:
    return run / RANKS / f"node-{attempt}-{number:05d}"


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    try:
        data = text.encode()[:_LENGTH]
        os.pwrite(handle, data + b" " * (_LENGTH - len(data)) + b"\n", 0)
    finally:
        os.close(handle)


def _read(path: Path) -> str:
    """Return the line of a file; "" if it is not complete, or after a transient error."""
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            data = os.pread(handle, _LENGTH + 1, 0)
        finally:
            os.close(handle)
        if len(data) == _LENGTH + 1 and data.endswith(b"\n"):
            return data.decode(errors="replace").strip()
    return ""
