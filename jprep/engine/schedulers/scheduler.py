"""The interface of schedulers, and the template of their scripts."""

from __future__ import annotations

import logging
import re
import shlex
import shutil
import subprocess
from abc import ABC, abstractmethod

from jprep.engine.schedulers.job import ELEMENT, Job, JobState
from jprep.errors import MachineError

_log = logging.getLogger(__name__)
_TIMEOUT = 120  # seconds for one command of a scheduler; a busy controller answers late


class Scheduler(ABC):
    """A batch scheduler.

    Attributes:
        name: its name.
        program: the command that submits a job.
        prefix: begins a line of the script that holds options.
        index: shell expression for the number of an array's element, from 0.
        job_id: shell expression for the job's id in the names of logs.
    """

    name: str
    program: str
    prefix: str
    index: str
    job_id: str

    @abstractmethod
    def directives(self, job: Job) -> list[str]:
        """Return the options of a job, each a line of the script's head."""

    @abstractmethod
    def submit_command(self) -> list[str]:
        """Return the command that reads a script from standard input and submits it."""

    @abstractmethod
    def parse_id(self, answer: str) -> str:
        """Return the job's id from the answer of `submit_command`."""

    @abstractmethod
    def states(self, ids: list[str]) -> list[JobState]:
        """Return what the scheduler still has of some jobs; jobs that have ended are left out.

        Raises:
            MachineError: the scheduler does not answer.
        """

    @abstractmethod
    def cancel_command(self, job_id: str) -> list[str]:
        """Return the command that cancels a job."""

    def array_limit(self) -> int | None:
        """Return the largest number of elements of an array; None if it is not known."""
        return None

    def script(self, job: Job) -> str:
        """Return the script of a job.

        Options and resources differ; the rest is the same for all schedulers. The command replaces the shell, so that
        the scheduler's signals reach it.
        """
        resources = job.resources
        head = [*self.directives(job), *resources.options]
        log = f"{shlex.quote(str(job.logs))}/{self.job_id}"
        lines = ["#!/bin/bash", *(f"{self.prefix} {each}" for each in head), *self._element(job)]
        lines += [f"export JPREP_JOB_LOG={log}{'_$element' if job.elements is not None else ''}.log"]
        lines += ['exec >>"$JPREP_JOB_LOG" 2>&1', _enter(job)]
        lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(job.environment.items())]
        words = ['"$element"' if word == ELEMENT else shlex.quote(word) for word in [*job.launcher, *job.command]]
        return "\n".join([*lines, *resources.setup, f"exec {' '.join(words)}"]) + "\n"

    def _element(self, job: Job) -> list[str]:
        """Return the lines that set `element`. Not every scheduler takes a list of numbers: a table translates."""
        if job.elements is None:
            return []
        if not job.is_array:
            return [f"element={job.elements[0]}"]
        if job.elements == list(range(len(job.elements))):
            return [f"element={self.index}"]
        return [f"elements=({' '.join(map(str, job.elements))})", f"element=${{elements[{self.index}]}}"]

    def submit(self, job: Job) -> str:
        """Submit a job; return its id.

        Raises:
            MachineError: the scheduler's program is not installed, or refuses the job.
        """
        done = self.run_program(self.submit_command(), self.script(job))
        if not done.returncode:
            return self.parse_id(done.stdout)
        if job_id := self.id_despite_warning(done.stderr):
            _log.warning("%s: %s", self.program, _last_line(done.stderr))
            return job_id
        fix = "correct [executor] of the recipe or --set executor.…; --dry-run prints the script"
        raise MachineError(f"{self.program} refused the job: {_last_line(done.stderr)}", where=job.name, fix=fix)

    def id_despite_warning(self, answer: str) -> str:
        """Return the id of a job that was submitted although the program failed; "" if it was not."""
        return ""

    def cancel(self, job_id: str) -> None:
        """Cancel a job; one that has ended is not an error."""
        self.run_program(self.cancel_command(job_id))

    def run_program(self, command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command of the scheduler.

        Raises:
            MachineError: it is not installed, or does not end.
        """
        if not shutil.which(command[0]):
            fix = "run jprep on a machine that submits jobs, such as a login node"
            raise MachineError(f"{command[0]} was not found", where=f"executor {self.name!r}", fix=fix)
        try:
            return subprocess.run(
                command, input=text, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT
            )
        except subprocess.TimeoutExpired as error:
            what = f"{command[0]} did not answer within {_TIMEOUT} seconds"
            raise MachineError(what, where=f"executor {self.name!r}", fix="try again later") from error

    def command_error(self, command: str, answer: str) -> MachineError:
        """Return the error for a command that failed."""
        what = f"{command} failed: {_last_line(answer)}"
        return MachineError(what, where=f"executor {self.name!r}", fix=f"try {command} in a shell")


def scheduler_output_path(path: str, special: str) -> str:
    """Return where the scheduler writes a job's output, for a line of options: in double quotes if it has spaces.

    Args:
        path: the path.
        special: characters that the scheduler reads in its own way and that cannot be quoted. Output to a path that has
            one of them is thrown away: the script writes the job's log itself.
    """
    if re.search(rf"[{re.escape(special)}\"'\n]", path):
        return "/dev/null"
    return f'"{path}"' if re.search(r"\s", path) else path


def _enter(job: Job) -> str:
    """Return the line that enters the folder. A share continues without it: its paths may all be absolute."""
    command = f"cd {shlex.quote(str(job.folder))}"
    return command if job.elements is not None else f"{command} || exit"


def _last_line(text: str) -> str:
    """Return the last line of an answer; Grid Engine's `qsub` prints another one after it."""
    lines = [line for line in text.strip().splitlines() if line.strip() not in ("", "Exiting.")]
    return next(iter(lines[-1:]), "it printed nothing")
