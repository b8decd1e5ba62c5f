"""Running a program and measuring it: CPU time with its children's, and the peak memory of each of its processes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, NamedTuple

JPREP = str(Path(sys.executable).with_name("jprep"))
SHARED = Path(os.environ.get("JPREP_SHARED", Path(__file__).parents[3] / "shared"))
MIB = 1 << 20

_PAUSE_S = 0.01
_PROC = Path("/proc")


class Run(NamedTuple):
    """What a program did.

    Attributes:
        code: its exit code; -9 is SIGKILL.
        out: its standard output.
        err: its standard error.
        cpu_s: CPU seconds, with those of its children.
        peaks: the highest resident size of each of its processes, in bytes, by process id, in the order of their birth;
            empty where the system has no `/proc`.
    """

    code: int
    out: str
    err: str
    cpu_s: float
    peaks: dict[int, int]

    @property
    def peak(self) -> int:
        """The largest process's peak, in bytes."""
        return max(self.peaks.values(), default=0)


def run(command: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> Run:
    """Run a program to its end, in a session of its own."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=cwd, env=env, start_new_session=True
        )
        watch = _Watch(process.pid)
        watch.start()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        watch.end()
        texts = [_text(stream) for stream in (out, err)]
    return Run(process.returncode, *texts, usage.ru_utime + usage.ru_stime, watch.peaks)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode("utf-8", "replace")


class _Watch(threading.Thread):
    """Reads the high-water marks of all processes of a session, again and again.

    `ru_maxrss` would not do: a process that was started by a large one begins with the large one's.
    """

    def __init__(self, session: int) -> None:
        super().__init__(daemon=True)
        self._session, self._ended = session, threading.Event()
        self.peaks: dict[int, int] = {}

    def run(self) -> None:
        while not self._ended.wait(_PAUSE_S):
            for pid in _members(self._session):
                if peak := _high_water(pid):
                    self.peaks[pid] = peak  # the last one tells: before its `exec` a process still has its parent's

    def end(self) -> None:
        self._ended.set()
        self.join()


def _members(session: int) -> list[int]:
    return [int(path.name) for path in _PROC.glob("[0-9]*") if _session_of(path) == session]


def _session_of(path: Path) -> int:
    try:
        return int(path.joinpath("stat").read_text().rpartition(")")[2].split()[3])
    except OSError:  # it is gone
        return 0


def _high_water(pid: int) -> int:
    try:
        lines = _PROC.joinpath(str(pid), "status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")), 0)
