"""The launcher of one host: `python -m jprep.train.hosts.host_launcher RUN ATTEMPT [NUMBER]`.

It starts this host's processes of an attempt as `plan.json` says, tells the supervisor by a file that it lives and how
they ended, and ends them when the attempt is over. It runs in the backend's environment.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from jprep.errors import JprepError, MachineError
from jprep.io.lock import LockWatch
from jprep.train.backend import Plan
from jprep.train.hosts.files import (
    CANNOT_START,
    HostState,
    Meeting,
    read_meeting,
    stop_requested,
    write_host_state,
    write_meeting,
)
from jprep.train.hosts.outer_launcher import FOREIGN_PREFIXES, outer_local_rank
from jprep.train.run.attempt import ATTEMPT, is_current_attempt
from jprep.train.run.directory import LOCK, read_plan
from jprep.train.run.log import on_stderr
from jprep.train.run.ranks import kill_group, release_ended_ranks

MODULE = "jprep.train.hosts.host_launcher"

KILL_PROCESSES = signal.SIGQUIT
"""The signal at which a launcher kills its processes and ends."""

_POLL_SECONDS = 0.1  # between two polls of the processes
_SHARED_POLL_SECONDS = 0.5  # between two polls of the shared directory
_FILE_TIMEOUT = 600.0  # for files of other hosts: longer than the supervisor waits for a launcher to start
_GRACE = 5.0  # for the other processes of this host after one has failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Run this host's processes to their end, and return the first exit code that is not 0."""
    parser = argparse.ArgumentParser(prog=f"python -m {MODULE}", description="Start one host's processes of a run.")
    parser.add_argument("run", type=Path)
    parser.add_argument("attempt")
    number = "number of this host; without it, the one of the Slurm task"
    parser.add_argument("number", type=int, nargs="?", default=os.environ.get("SLURM_PROCID", "0"), help=number)
    given = parser.parse_args(arguments)
    launcher = _HostLauncher(given.run.absolute(), given.attempt, given.number)
    for stop in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        signal.signal(stop, launcher.pass_on)
    signal.signal(KILL_PROCESSES, launcher.kill)
    try:
        return launcher.run_processes()
    except _KilledError:
        return launcher.end(1)
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return launcher.end(error.exit_code)


class _KilledError(Exception):
    """The supervisor has ended this launcher before its processes started."""


class _HostLauncher:
    def __init__(self, run: Path, attempt: str, number: int) -> None:
        self._run, self._attempt, self._number = run, attempt, number
        self._processes: list[subprocess.Popen[bytes]] = []
        self._beat, self._polled_at, self._missed = 0, 0.0, 0
        self._stopping = self._killed = False
        self._lock = LockWatch(run / LOCK)
        self._name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self._state(None)

    def pass_on(self, number: int, frame: FrameType | None) -> None:
        """Let the processes save and stop; rank 0 decides when. This launcher ends after them."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)

    def kill(self, number: int, frame: FrameType | None) -> None:
        """Let this launcher kill its processes and end."""
        self._killed = True

    def run_processes(self) -> int:
        """Start the processes, and wait until they have ended or the attempt is over."""
        plan = self._await_plan()
        meeting = self._meet(plan)
        each, world = plan.processes // plan.machines, plan.processes
        common = _without_foreign(os.environ) | plan.env | _meeting_variables(meeting)
        first = outer_local_rank(os.environ) if plan.placement and plan.placement.starter == "join" and each == 1 else 0
        for local in range(each):
            ranks = {"RANK": self._number * each + local, "LOCAL_RANK": first + local, "WORLD_SIZE": world}
            ranks |= {"LOCAL_WORLD_SIZE": each, "GROUP_RANK": self._number}
            env = common | {name: str(value) for name, value in ranks.items()}
            # A process group of its own, which the process kills when it finds that the attempt is over.
            started = subprocess.Popen(plan.argv, env=env, stdin=subprocess.DEVNULL, start_new_session=True)
            self._processes.append(started)
        try:
            return self.end(self._wait())
        finally:
            self._kill()

    def end(self, code: int) -> int:
        """Write how the processes ended, and return the exit code."""
        self._kill()
        with contextlib.suppress(OSError, JprepError):
            release_ended_ranks(self._run)
        self._state(code)
        return code

    def _wait(self) -> int:
        """Wait for the processes; after one fails, the others, which would wait for it forever, are ended."""
        failed = 0.0
        while True:
            codes = [process.poll() for process in self._processes]
            if None not in codes:
                break
            if any(codes):
                failed = failed or time.monotonic()
            if (failed and time.monotonic() - failed > _GRACE) or not self._poll_shared():
                break
            time.sleep(_POLL_SECONDS)
        found = next((code for code in codes if code), 0) or (1 if None in codes else 0)
        return 128 - found if found < 0 else min(found, CANNOT_START - 1)

    def _poll_shared(self) -> bool:
        """Write the state, and return whether the attempt continues."""
        now = time.monotonic()
        if now - self._polled_at < _SHARED_POLL_SECONDS:
            return not self._killed
        self._polled_at = now
        with contextlib.suppress(OSError):  # a transient error is no reason to exit
            self._missed = 0 if is_current_attempt(self._run, self._attempt, self._lock) else self._missed + 1
        self._state(None)
        if self._processes and not self._number and not self._stopping and stop_requested(self._run, self._attempt):
            self._stopping = True
            self.pass_on(signal.SIGTERM, None)
        return self._goes_on()

    def _goes_on(self) -> bool:
        return self._missed < 2 and not self._killed

    def _end_if_killed(self) -> None:
        if self._killed:
            raise _KilledError

    def _state(self, code: int | None) -> None:
        self._beat += 1
        with contextlib.suppress(OSError):
            write_host_state(self._run, self._attempt, self._number, HostState(self._beat, code, self._name))

    def _await_plan(self) -> Plan:
        """Return the plan of the attempt, which a network file system may show late."""
        deadline = time.monotonic() + _FILE_TIMEOUT
        while time.monotonic() < deadline and self._goes_on():
            with contextlib.suppress(OSError):
                plan = read_plan(self._run)
                if plan.env.get(ATTEMPT) == self._attempt and self._number < plan.machines:
                    return plan
            time.sleep(_POLL_SECONDS)
            self._poll_shared()
        self._end_if_killed()
        what = f"this host does not see the plan of attempt {self._attempt}"
        fix = "all hosts must see the run directory at one path, on a shared file system"
        raise MachineError(what, where=str(self._run), fix=fix)

    def _meet(self, plan: Plan) -> Meeting:
        """Return where the ranks connect: on the first host choose it, on the others wait for it."""
        if self._number == 0:
            port = int(plan.env.get("MASTER_PORT", "0")) or free_port("")
            meeting = Meeting(_own_address(plan), port)
            write_meeting(self._run, self._attempt, meeting)
            return meeting
        deadline = time.monotonic() + _FILE_TIMEOUT
        while time.monotonic() < deadline and self._goes_on():
            if found := read_meeting(self._run, self._attempt):
                return found
            time.sleep(_POLL_SECONDS)
            self._poll_shared()
        self._end_if_killed()
        what = f"the first host has not started its processes in attempt {self._attempt}"
        raise MachineError(what, where=str(self._run), fix="see log.txt")

    def _kill(self) -> None:
        for process in self._processes:
            kill_group(process)


def _meeting_variables(meeting: Meeting) -> dict[str, str]:
    return {"MASTER_ADDR": meeting.address, "MASTER_PORT": str(meeting.port)}


def _without_foreign(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environ.items() if not name.startswith(FOREIGN_PREFIXES)}


def _own_address(plan: Plan) -> str:
    """Return the address by which other hosts reach this one: the scheduler's name of it if that resolves."""
    placement = plan.placement
    if placement is None or len(placement.names) == 1:
        return "127.0.0.1"
    own = [socket.getfqdn(), socket.gethostname()]
    for name in (placement.address, *([] if placement.starter == "join" else placement.names[:1]), *own):
        with contextlib.suppress(OSError):
            if name and socket.getaddrinfo(name, None):
                return name
    return socket.gethostname()


def free_port(address: str) -> int:
    """Return a port of this host that no process listens on.

    Args:
        address: the address to listen at; "" for all addresses of the host.
    """
    with socket.socket() as listener:
        listener.bind((address, 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
