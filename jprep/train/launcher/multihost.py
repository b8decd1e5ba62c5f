"""Join a run from another host: `python -m jprep.train.launcher.multihost RUN NUMBER`.

`jprep train` on the first host starts the attempts. This program starts one worker for each attempt, as `plan.json` in
the run directory says, and waits for the next attempt when one is over. All it knows comes from the run directory.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Plan
from jprep.train.launcher.signals import stop_signals
from jprep.train.run.attempt import ATTEMPT, FATAL_EXIT_CODES, NO_ATTEMPT, is_current_attempt
from jprep.train.run.directory import LOCK, read_plan
from jprep.train.run.events import Event, EventReader, last_end
from jprep.train.run.log import on_stderr
from jprep.train.run.ranks import claim_process

_MODULE = "jprep.train.launcher.multihost"
_POLL_SECONDS = 0.25
_STOPPED = 130


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

    After the first SIGTERM, SIGINT or SIGHUP it exits at the end of the attempt, which the first host decides, because
    no checkpoint can be made without its worker. The second one kills the worker and exits at once.

    Returns:
        The exit code of the run; 130 if this process was stopped.
    """
    parser = argparse.ArgumentParser(prog=f"python -m {_MODULE}", description="Join a run from another host.")
    parser.add_argument("run", type=Path, help="the run directory, at the same path as on the first host")
    parser.add_argument("number", type=int, help="the number of this host's process, from 1; different on each host")
    given = parser.parse_args(arguments)
    joined = _JoinedHost(given.run.absolute(), given.number)
    for number in stop_signals():
        signal.signal(number, joined.request_stop)
    try:
        return joined.take_part()
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code


class _JoinedHost:
    def __init__(self, run: Path, number: int) -> None:
        self._run, self._number, self._attempt = run, number, ""
        self._working = self._stop_requested = False
        self._events = EventReader(run)
        before = last_end(self._events.new())
        self._end = None if before and before.figures.get("code") else before  # a failed run may be started again

    def request_stop(self, number: int, frame: FrameType | None) -> None:
        """Handle a stop signal."""
        if self._stop_requested or not self._working:
            sys.exit(_STOPPED)  # which kills the worker
        self._stop_requested = True

    def take_part(self) -> int:
        """Take part in every attempt, and return the exit code."""
        while True:
            plan = None
            with contextlib.suppress(OSError):  # a transient error of a network file system: try again
                self._end = last_end(self._events.new(), self._end)
                plan = None if self._end else self._next_attempt()
            if self._end:
                return self._exit_code(self._end)
            if not plan:
                time.sleep(_POLL_SECONDS)
            elif (code := self._run_worker(plan)) in FATAL_EXIT_CODES and self._is_current():  # it did not join late
                return code
            elif self._stop_requested:
                return _STOPPED

    def _exit_code(self, end: Event) -> int:
        if code := int(end.figures.get("code") or 0):
            on_stderr(f"jprep: the run failed: {end.note}")
        return code

    def _next_attempt(self) -> Plan | None:
        """Return the plan of the current attempt, if it is a new one in which this process can take part."""
        name = (self._run / LOCK).read_text().strip()
        if name in (NO_ATTEMPT, self._attempt) or not is_current_attempt(self._run, name):
            return None
        plan = read_plan(self._run)
        if plan.env.get(ATTEMPT) != name:  # a network file system may still show the previous one
            return None
        if not 0 < self._number < plan.machines:
            hosts = "1 host" if plan.machines == 1 else f"{plan.machines} hosts"
            what = f"there is no process {self._number}: the run has {hosts}"
            raise ConfigError(what, where=str(self._run), fix=f"use a number from 1 to {plan.machines - 1}")
        claimed, self._attempt = claim_process(self._run, name, self._number), name
        if not claimed:
            on_stderr(f"jprep: another process has joined this attempt as {self._number}; waiting for the next one")
        return plan if claimed else None

    def _is_current(self) -> bool:
        with contextlib.suppress(OSError):
            return is_current_attempt(self._run, self._attempt)
        return False

    def _run_worker(self, plan: Plan) -> int:
        """Run the worker of this attempt, and return its exit code."""
        command = [sys.executable, *plan.argv[1:], "--process", str(self._number)]
        self._working = True
        try:  # at the end of its attempt the worker kills its whole process group
            done = subprocess.run(command, env=os.environ | plan.env, stdin=subprocess.DEVNULL, start_new_session=True)
            return done.returncode
        finally:
            self._working = False


if __name__ == "__main__":
    sys.exit(main())
