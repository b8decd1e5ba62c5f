"""Takes part in a run whose first process is on another machine: `python -m jprep.train.launcher.multihost RUN NUMBER`.

`jprep train` on the first machine starts attempts; this starts a worker for each, and waits for the next where one is
over. Only the run directory says so, and `plan.json` there what the worker is started with.
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
from jprep.train.run.attempt import (
    ATTEMPT,
    FATAL_EXIT_CODES,
    NO_ATTEMPT,
    claim_process,
    is_current_attempt,
    stop_signals,
)
from jprep.train.run.directory import LOCK, read_plan
from jprep.train.run.events import Event, EventReader, last_end
from jprep.train.run.log import on_stderr

_LOOK = 0.25  # seconds between two looks at the run
_STOPPED = 130


def multihost_note(run: Path, machines: int) -> str:
    """What a plan says of the other machines.

    Args:
        run: the run directory.
        machines: how many there are, with a process on each.
    """
    numbers = "1" if machines == 2 else f"1 to {machines - 1}"
    command = f"python -m jprep.train.launcher.multihost {shlex.quote(str(run))} NUMBER"
    return f"on each other machine, in the backend's environment, NUMBER is {numbers}: {command}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Take part until the run is finished, or fails for good; 0, or the run's exit code; 130 where this was ended.

    The first SIGTERM, SIGINT or SIGHUP has it leave when the attempt is over, which the first machine decides: no
    checkpoint is made without its worker. The second ends both at once.
    """
    parser = argparse.ArgumentParser(
        prog="jprep.train.launcher.multihost", description="Take part in a run of several machines."
    )
    parser.add_argument("run", type=Path, help="the run directory, under the path that the first machine has it at")
    parser.add_argument("number", type=int, help="of this process: from 1, each machine another")
    given = parser.parse_args(arguments)
    joined = _JoinedHost(given.run.absolute(), given.number)
    for number in stop_signals():
        signal.signal(number, joined.ask)
    try:
        return joined.to_the_end()
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code


class _JoinedHost:
    def __init__(self, run: Path, number: int) -> None:
        self._run, self._number, self._attempt = run, number, ""
        self._works = self._asked = False
        self._follower = EventReader(run)
        before = last_end(self._follower.new())
        self._end = None if before and before.figures.get("code") else before  # what failed may be begun again

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        if self._asked or not self._works:
            sys.exit(_STOPPED)  # and the worker is ended
        self._asked = True

    def to_the_end(self) -> int:
        """Take part in each attempt."""
        while True:
            plan = None
            with contextlib.suppress(OSError):  # a network file system's bad moment: it looks again
                self._end = last_end(self._follower.new(), self._end)
                plan = None if self._end else self._begun()
            if self._end:
                return self._told_to_leave(self._end)
            if not plan:
                time.sleep(_LOOK)
            elif (code := self._take_part(plan)) in FATAL_EXIT_CODES and self._goes_on():  # not come too late
                return code
            elif self._asked:
                return _STOPPED

    def _told_to_leave(self, end: Event) -> int:
        if code := int(end.figures.get("code") or 0):
            on_stderr(f"jprep: the run failed: {end.note}")
        return code

    def _begun(self) -> Plan | None:
        """The plan of another attempt than the last, where one is going on that this is to take part in."""
        name = (self._run / LOCK).read_text().strip()
        if name in (NO_ATTEMPT, self._attempt) or not is_current_attempt(self._run, name):
            return None
        plan = read_plan(self._run)
        if plan.env.get(ATTEMPT) != name:  # a network file system may give that of the attempt before
            return None
        if not 0 < self._number < plan.machines:
            what = f"there is no process {self._number} to join a run of {plan.machines}"
            raise ConfigError(what, where=str(self._run), fix="a number from 1 to one less than there are machines")
        mine, self._attempt = claim_process(self._run, name, self._number), name
        if not mine:
            on_stderr(f"jprep: another process has joined this attempt as {self._number}; this one waits for the next")
        return plan if mine else None

    def _goes_on(self) -> bool:
        with contextlib.suppress(OSError):
            return is_current_attempt(self._run, self._attempt)
        return False

    def _take_part(self, plan: Plan) -> int:
        """Run a worker of this attempt; its exit code."""
        command = [sys.executable, *plan.argv[1:], "--process", str(self._number)]
        self._works = True
        try:  # the worker ends its whole group where its attempt is over
            done = subprocess.run(command, env=os.environ | plan.env, stdin=subprocess.DEVNULL, start_new_session=True)
            return done.returncode
        finally:
            self._works = False


if __name__ == "__main__":
    sys.exit(main())
