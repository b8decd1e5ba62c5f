"""Grid Engine: Univa, Altair and Son of Grid Engine."""

from __future__ import annotations

import os
import pwd
import re
import shutil
from datetime import datetime, timedelta
from xml.etree import ElementTree

from jprep.engine.schedulers.job import Job, JobState, clock, seconds
from jprep.engine.schedulers.scheduler import Scheduler, scheduler_output_path

_LIMIT = re.compile(r"^max_aj_tasks\s+(\d+)", re.MULTILINE)
_SUBMITTED = re.compile(r"^Your job(?:-array)? (\d+)\b.* has been submitted", re.MULTILINE)
_TRANSFER = timedelta(minutes=5)  # it takes a second; after a host's failure it may never end
_ERROR = re.compile(r"^error reason[^:]*:\s*(?:\S+ \S+ )?(?:\[[\d:]*\]: )?(.+)", re.MULTILINE)


class GridEngine(Scheduler):
    """Grid Engine: `qsub`, `qstat`, `qdel`. Elements of arrays are numbered from 1.

    Args:
        parallel: the parallel environment that gives several processors of one host, by site: `smp` usually. Empty for
            sites where `options` ask for them.
        memory: the resource that limits memory, by site.
    """

    name, program, prefix = "grid-engine", "qsub", "#$"
    index, job_id = "$((SGE_TASK_ID - 1))", "${JOB_ID}"

    def __init__(self, parallel: str = "smp", memory: str = "h_vmem") -> None:
        self._parallel, self._memory = parallel, memory

    def directives(self, job: Job) -> list[str]:
        """Return the options of `qsub`."""
        asked = job.resources
        processors = asked.cpus * job.nodes * job.tasks_per_node
        options = {
            "-N": job.name,
            "-t": f"1-{len(job.elements) if job.elements else 'LAST'}" if job.is_array else "",
            "-hold_jid": ",".join(job.after),
            "-q": asked.partition,
            "-P": asked.account,
            "-pe": f"{self._parallel} {processors}" if self._parallel and processors > 1 else "",
            "-r": "y" if asked.requeue else "n",
            "-j": "y",
            "-o": _log_path(str(job.logs)),
            "-S": "/bin/bash",
        }
        limits = self._limits(job)
        return [*(f"{name} {value}" for name, value in options.items() if value), *limits, "-V"]

    def _limits(self, job: Job) -> list[str]:
        """Return the limits of time and memory; the soft limit of time sends SIGUSR1."""
        asked = job.resources
        limits = {self._memory: asked.memory, "gpu": asked.gpus or ""}
        if asked.time:
            hard = seconds(asked.time)
            soft = clock(hard - asked.warn) if 0 < asked.warn < hard else ""
            limits |= {"h_rt": clock(hard), "s_rt": soft}
        return [f"-l {name}={value}" for name, value in limits.items() if value]

    def submit_command(self) -> list[str]:
        """Return the command that submits a script."""
        return ["qsub", "-terse"]

    def parse_id(self, answer: str) -> str:
        """Return the id; for an array the answer is e.g. `12.1-64:1`."""
        return answer.strip().splitlines()[-1].split(".")[0]

    def states(self, ids: list[str]) -> list[JobState]:
        """Return the jobs that `qstat` lists."""
        user = pwd.getpwuid(os.geteuid()).pw_name  # which Grid Engine takes, whatever $USER says
        done = self.run_program(["qstat", "-xml", "-u", user])
        if done.returncode:
            raise self.command_error("qstat", done.stderr)
        jobs = ElementTree.fromstring(done.stdout).iter("job_list")
        return [self._state(each) for each in jobs if each.findtext("JB_job_number") in ids]

    def _state(self, job: ElementTree.Element) -> JobState:
        number, code = job.findtext("JB_job_number", ""), job.findtext("state", "")
        _, _, host = job.findtext("queue_name", "").partition("@")
        elements, begun = job.findtext("tasks", ""), job.findtext("JAT_start_time", "")
        if _is_stuck(code, begun):
            reason = f"{host} has not taken it since {begun}; `qmod -rj {number}.{elements or 1}` starts it again"
            return JobState(number, elements, "held", host, reason)
        return JobState(number, elements, _word(code), host, self._reason(number, code))

    def _reason(self, number: str, code: str) -> str:
        """Return why a job waits. The code of a hold does not say whether a user or another job causes it."""
        if "E" in code:
            return self._error(number)
        held = f"by qhold, or until another job ends; `qrls {number}` releases it from qhold"
        return held if code.startswith("h") else ""

    def _error(self, number: str) -> str:
        """Return why a job could not be started."""
        found = _ERROR.search(self.run_program(["qstat", "-j", number]).stdout)
        return found[1] if found else f"error: see qstat -j {number}"

    def cancel_command(self, job_id: str) -> list[str]:
        """Return the command that cancels a job."""
        return ["qdel", job_id]

    def id_despite_warning(self, answer: str) -> str:
        """Return the id of a job that `qsub` submitted with a warning: it fails then, and prints the id differently."""
        found = _SUBMITTED.search(answer)
        return found[1] if found else ""

    def array_limit(self) -> int | None:
        """Return the site's limit."""
        found = _LIMIT.search(self.run_program(["qconf", "-sconf"]).stdout) if shutil.which("qconf") else None
        return int(found[1]) or None if found else None


def _log_path(path: str) -> str:
    """Return the option's value: `host:path`, in which a comma begins another one, `$` a variable, `#` a comment."""
    return scheduler_output_path(f":{path}" if ":" in path else path, ",$#")


def _is_stuck(code: str, begun: str) -> bool:
    """Return whether a job has been sent to a host, at a time as in `2026-11-27T22:51:21`, that does not have it."""
    try:
        return code.strip("R") == "t" and datetime.now() - datetime.fromisoformat(begun) > _TRANSFER
    except ValueError:  # no time, or in another form
        return False


def _word(code: str) -> str:
    """Return the state for a code such as `qw`, `r`, `hqw`, `Eqw` or `dr`."""
    if "d" in code:
        return "ending"
    if code.startswith(("h", "E")) or "s" in code or "S" in code:
        return "held"
    return "running" if code.strip("R") in ("r", "t") else "pending"
