"""Takes part in a run whose first process is on another machine: `python -m jprep.train.joining RUN NUMBER`.

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
from jprep.train.attempt import ATTEMPT, HOPELESS, NOBODY, RESUME, wanted
from jprep.train.checkpoints import Checkpoint
from jprep.train.events import Event, Follower, last_end
from jprep.train.log import on_stderr
from jprep.train.rundir import JOB, LOCK, checkpoints_of, read_job, read_plan

_LOOK = 0.25  # seconds between two looks at the run
_STOPPED = 130
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def told(run: Path, processes: int) -> str:
    """What a plan says of the other machines.

    Args:
        run: the run directory.
        processes: how many there are, one on each machine.
    """
    numbers = "1" if processes == 2 else f"1 to {processes - 1}"
    command = f"python -m jprep.train.joining {shlex.quote(str(run))} NUMBER"
    return f"on each other machine, in the backend's environment, NUMBER is {numbers}: {command}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Take part until the run is finished, or fails for good; 0, or the run's exit code; 130 where this was ended.

    The first SIGTERM, SIGINT or SIGHUP has it leave when the attempt is over, which the first machine decides: no
    checkpoint is made without its worker. The second ends both at once.
    """
    parser = argparse.ArgumentParser(prog="jprep.train.joining", description="Take part in a run of several machines.")
    parser.add_argument("run", type=Path, help="the run directory, under the path that the first machine has it at")
    parser.add_argument("number", type=int, help="of this process: from 1, each machine another")
    given = parser.parse_args(arguments)
    joined = _Joined(given.run.absolute(), given.number)
    for number in _SIGNALS:
        signal.signal(number, joined.ask)
    try:
        return joined.to_the_end()
    except JprepError as error:
        on_stderr(f"jprep: {error}")
        return error.exit_code


class _Joined:
    def __init__(self, run: Path, number: int) -> None:
        self._run, self._number, self._attempt = run, number, ""
        self._works = self._asked = False
        self._end: Event | None = None
        self._follower = Follower(run)
        self._follower.new()  # what failed before this was started may be begun again

    def ask(self, number: int, frame: FrameType | None) -> None:
        """Hear a signal."""
        if self._asked or not self._works:
            sys.exit(_STOPPED)  # and the worker is ended
        self._asked = True

    def to_the_end(self) -> int:
        """Take part in each attempt."""
        while True:
            self._end = last_end(self._follower.new(), self._end)
            if self._finished():
                return 0
            if self._end and (code := self._end.figures.get("code")):
                on_stderr(f"jprep: the run failed: {self._end.note}")
                return int(code)
            if not self._begun():
                time.sleep(_LOOK)
            elif (code := self._take_part()) in HOPELESS and wanted(self._run, self._attempt):  # not come too late
                return code
            elif self._asked:
                return _STOPPED

    def _finished(self) -> bool:
        newest = self._newest()
        return newest is not None and newest.step >= read_job(self._run).steps

    def _begun(self) -> bool:
        """Whether another attempt than the last is going on."""
        with contextlib.suppress(FileNotFoundError):
            name = (self._run / LOCK).read_text().strip()
            if name not in (NOBODY, self._attempt) and wanted(self._run, name):
                self._attempt = name
                return True
        return False

    def _take_part(self) -> int:
        """Run a worker of this attempt; its exit code."""
        plan, newest = read_plan(self._run), self._newest()
        if not 0 < self._number < plan.processes:
            what = f"there is no process {self._number} to join a run of {plan.processes}"
            raise ConfigError(what, where=str(self._run), fix="a number from 1 to one less than there are machines")
        env = os.environ | plan.env | {ATTEMPT: self._attempt, RESUME: newest.folder.name if newest else ""}
        command = [sys.executable, *plan.argv[1:], "--process", str(self._number)]
        self._works = True
        try:  # the worker ends its whole group where its attempt is over
            return subprocess.run(command, env=env, stdin=subprocess.DEVNULL, start_new_session=True).returncode
        finally:
            self._works = False

    def _newest(self) -> Checkpoint | None:
        """The checkpoint that an attempt goes on from: the supervisor has looked at it before it named the attempt."""
        if not (self._run / JOB).exists():  # this was started first
            return None
        found = checkpoints_of(self._run, read_job(self._run)).committed()
        return found[-1] if found else None


if __name__ == "__main__":
    sys.exit(main())
