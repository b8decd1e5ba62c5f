"""Join a run from another host: `python -m jprep.train.launcher.multihost RUN NUMBER`.

`jprep train` on the first host starts the attempts. This program starts one worker for each attempt, as `plan.json` in
the run directory says, and waits for the next attempt when one is over. All it knows comes from the run directory.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import secrets
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType

from jprep.errors import ConfigError, JprepError
from jprep.io.lock import LockWatch
from jprep.plurals import counted
from jprep.train.backend import Plan
from jprep.train.hosts.host_launcher import KILL_PROCESSES
from jprep.train.hosts.host_launcher import MODULE as HOST_LAUNCHER
from jprep.train.launcher.signals import STOPPED, TIME_LIMIT, TO_BE_CONTINUED, stop_signals
from jprep.train.run.attempt import ATTEMPT, FATAL_EXIT_CODES, NO_ATTEMPT, announce_attempt, is_current_attempt
from jprep.train.run.directory import LOCK, read_plan
from jprep.train.run.events import Event, EventReader, last_end
from jprep.train.run.log import on_stderr
from jprep.train.run.ranks import claim_process, kill_group, release_ended_ranks

_MODULE = "jprep.train.launcher.multihost"
_POLL_SECONDS = 0.25
_OVER = "over-"  # the start of the attempt's name after a supervisor has ended: `over-CODE-ID`

_KILL_SECONDS = 30.0  # for a launcher to kill its processes


def multihost_note(run: Path, machines: int, python: str = "python") -> str:
    """Return the note of a plan about the command for the other hosts.

    Args:
        run: the run directory.
        machines: the number of hosts, with one process each.
        python: the interpreter of the backend's environment.
    """
    numbers = "1" if machines == 2 else f"1 to {machines - 1}"
    command = f"{shlex.quote(python)} -m {_MODULE} {shlex.quote(str(run))} NUMBER"
    return f"on each other host, in the backend's environment, run (NUMBER is {numbers}): {command}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Take part in a run until it is finished or has failed.

    After the first SIGTERM, SIGINT, SIGHUP or SIGUSR1 it exits at the end of the attempt, which the first host decides,
    because no checkpoint can be made without its worker. The second one kills the worker and exits at once.

    Returns:
        The exit code of the run; 130 if this process was stopped, 75 if by SIGUSR1 first.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description="Join a run from another host.")
    parser.add_argument("run", type=Path, help="the run directory, at the same path as on the first host")
    parser.add_argument("number", type=int, help="the number of this host's process, from 1; different on each host")
    given = parser.parse_args(arguments)
    return _join(_JoinedHost(given.run.absolute(), given.number))


def join_run(run: Path, number: int, timeout: float) -> int:
    """Take part in a run as one of the processes of an outer launcher, until the first process ends.

    Args:
        run: the run directory, which need not exist yet.
        number: the number of this process, from 1.
        timeout: seconds to wait for an attempt.

    Returns:
        The exit code of the first process; 130 if this process was stopped; 75 if it was by SIGUSR1, or there is no
        attempt for so long.
    """
    return _join(_JoinedHost(run.absolute(), number, timeout))


@contextlib.contextmanager
def announced_end(run: Path, plan: Plan) -> Iterator[list[int]]:
    """Tell processes that have joined how the run ended. Requires the run's lock.

    Args:
        run: the run directory.
        plan: its plan.

    Yields:
        A list that takes the exit code.
    """
    codes = [1]
    try:
        yield codes
    except JprepError as error:
        codes.append(error.exit_code)
        raise
    finally:
        if plan.placement and plan.placement.starter == "join":
            announce_attempt(run, f"{_OVER}{codes[-1]}-{secrets.token_hex(8)}")


def _join(joined: _JoinedHost) -> int:
    for number in stop_signals():
        signal.signal(number, joined.request_stop)
    try:
        return joined.take_part()
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code


class _JoinedHost:
    def __init__(self, run: Path, number: int, timeout: float = math.inf) -> None:
        self._run, self._number, self._timeout, self._attempt = run, number, timeout, ""
        self._before = self._announced()
        self._working, self._stop_code = False, 0
        self._events, self._lock = EventReader(run), LockWatch(run / LOCK)
        before = last_end(self._events.new())
        self._end = None if before and before.figures.get("code") else before  # a failed run may be started again

    def request_stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a stop signal; the first one decides the exit code."""
        again, code = bool(self._stop_code), TO_BE_CONTINUED if number == TIME_LIMIT else STOPPED
        self._stop_code = self._stop_code or code
        if again or not self._working:
            sys.exit(self._stop_code)  # which kills the worker

    def take_part(self) -> int:
        """Take part in every attempt, and return the exit code."""
        active = time.monotonic()
        while True:
            plan = None
            with contextlib.suppress(OSError):  # a transient error of a network file system: try again
                self._end = last_end(self._events.new(), self._end)
                plan = None if self._end else self._next_attempt()
            if self._end:
                return self._exit_code(self._end)
            if not plan:
                if (code := self._outcome()) is not None:
                    return code
                if time.monotonic() - active > self._timeout:
                    on_stderr("jprep: the first process does not start an attempt; run the same command again")
                    return TO_BE_CONTINUED
                time.sleep(_POLL_SECONDS)
            elif (code := self._run_worker(plan)) in FATAL_EXIT_CODES and self._is_current(self._attempt):
                return code  # it did not join late
            elif self._stop_code:
                return self._stop_code
            else:
                active = time.monotonic()

    def _outcome(self) -> int | None:
        """Return the exit code of the supervisor, if it has ended since this process began to wait for it."""
        name = self._announced()
        if self._timeout == math.inf or name == self._before or not name.startswith(_OVER):
            return None
        return int(name.split("-")[1])

    def _announced(self) -> str:
        """Return the name of the current attempt, or how the last one ended."""
        with contextlib.suppress(OSError):
            return (self._run / LOCK).read_text().strip()
        return ""

    def _exit_code(self, end: Event) -> int:
        if code := int(end.figures.get("code") or 0):
            on_stderr(f"jprep: the run failed: {end.note}")
        return code

    def _next_attempt(self) -> Plan | None:
        """Return the plan of the current attempt, if it is a new one in which this process can take part."""
        name = self._announced()
        if name in ("", NO_ATTEMPT, self._attempt) or not self._is_current(name, certain=True):
            return None
        plan = read_plan(self._run)
        if plan.env.get(ATTEMPT) != name:  # a network file system may still show the previous one
            return None
        if not 0 < self._number < plan.machines:
            what = f"there is no process {self._number}: the run has {counted(plan.machines, 'host')}"
            raise ConfigError(what, where=str(self._run), fix=f"use a number from 1 to {plan.machines - 1}")
        claimed, self._attempt = claim_process(self._run, name, self._number), name
        if not claimed:
            on_stderr(f"jprep: another process has joined this attempt as {self._number}; waiting for the next one")
        return plan if claimed else None

    def _is_current(self, attempt: str, *, certain: bool = False) -> bool:
        with contextlib.suppress(OSError):
            return is_current_attempt(self._run, attempt, self._lock, certain=certain)
        return False

    def _run_worker(self, plan: Plan) -> int:
        """Run the worker of this attempt, and return its exit code."""
        command = [sys.executable, *plan.argv[1:], "--process", str(self._number)]
        if plan.placement:
            command = [plan.argv[0], "-m", HOST_LAUNCHER, str(self._run), self._attempt, str(self._number)]
        self._working = True
        # At the end of its attempt the worker kills its whole process group.
        worker = subprocess.Popen(command, env=os.environ | plan.env, stdin=subprocess.DEVNULL, start_new_session=True)
        try:
            return worker.wait()
        finally:
            self._working = False
            if worker.poll() is None:
                _kill(worker, is_launcher=plan.placement is not None)
            release_ended_ranks(self._run)


def _kill(worker: subprocess.Popen[bytes], *, is_launcher: bool) -> None:
    """Kill a worker and its group. A launcher kills its processes first, which have groups of their own."""
    try:
        if is_launcher:
            worker.send_signal(KILL_PROCESSES)
            with contextlib.suppress(subprocess.TimeoutExpired):
                worker.wait(_KILL_SECONDS)
    finally:
        kill_group(worker)


if __name__ == "__main__":
    sys.exit(main())
