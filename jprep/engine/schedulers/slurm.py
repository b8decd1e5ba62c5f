"""Slurm."""

from __future__ import annotations

import re
from pathlib import Path

from jprep.engine.schedulers.job import Job, JobState
from jprep.engine.schedulers.scheduler import Scheduler

_STATES = {
    "PENDING": "pending",
    "CONFIGURING": "pending",  # its nodes are being started
    "RUNNING": "running",
    "SUSPENDED": "held",
    "REQUEUE_HOLD": "held",
}
_LIMIT = re.compile(r"^MaxArraySize\s*=\s*(\d+)", re.MULTILINE)
_UNKNOWN = "Invalid job id"


class Slurm(Scheduler):
    """Slurm: `sbatch`, `squeue`, `scancel`. `sacct`, which needs a database, is not used."""

    name, program, prefix = "slurm", "sbatch", "#SBATCH"
    index, job_id = "$SLURM_ARRAY_TASK_ID", "${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}"

    def directives(self, job: Job) -> list[str]:
        """Return the options of `sbatch`."""
        asked = job.resources
        options = {
            "job-name": job.name,
            "array": _array(job),
            "dependency": ":".join(["afterany", *job.after]) if job.after else "",
            "partition": asked.partition,
            "account": asked.account,
            "qos": asked.qos,
            "time": asked.time,
            "mem": asked.memory,
            "cpus-per-task": asked.cpus or "",
            "gpus-per-node": asked.gpus or "",
            "nodes": job.nodes if job.nodes > 1 else "",
            "ntasks-per-node": job.tasks_per_node if job.nodes > 1 or job.tasks_per_node > 1 else "",
            "signal": f"{'' if job.warn_steps else 'B:'}USR1@{asked.warn}" if asked.warn else "",
            "output": _quote(job.logs / ("%A_%a.scheduler" if job.is_array else "%j.scheduler")),
            "open-mode": "append",
        }
        requeue = "--requeue" if asked.requeue else "--no-requeue"
        return [*(f"--{name}={value}" for name, value in options.items() if value != ""), requeue]

    def submit_command(self) -> list[str]:
        """Return the command that submits a script."""
        return ["sbatch", "--parsable"]

    def parse_id(self, answer: str) -> str:
        """Return the id; the name of the cluster may follow it."""
        return answer.strip().splitlines()[-1].split(";")[0]

    def states(self, ids: list[str]) -> list[JobState]:
        """Return the jobs that `squeue` lists."""
        command = ["squeue", "--noheader", f"--jobs={','.join(ids)}", "--format=%i|%T|%N|%r"]
        done = self.run_program(command)
        if done.returncode:
            if _UNKNOWN in done.stderr:  # all have ended some time ago
                return []
            raise self.command_error("squeue", done.stderr)
        return [_state(line) for line in done.stdout.splitlines() if line.count("|") >= 3]

    def cancel_command(self, job_id: str) -> list[str]:
        """Return the command that cancels a job."""
        return ["scancel", job_id]

    def array_limit(self) -> int | None:
        """Return the site's limit; the largest index is one less."""
        found = _LIMIT.search(self.run_program(["scontrol", "show", "config"]).stdout)
        return int(found[1]) if found else None


def _array(job: Job) -> str:
    if not job.is_array:
        return ""
    return f"0-{len(job.elements) - 1}" if job.elements else "0-LAST"


def _quote(path: Path) -> str:
    """Return a path for a line of options: `%` begins a pattern, and spaces end an option."""
    text = str(path.parent).replace("%", "%%") + f"/{path.name}"
    return f'"{text}"' if " " in text else text


def _state(line: str) -> JobState:
    job, state, host, reason = line.split("|", 3)
    name, _, element = job.partition("_")
    word = _STATES.get(state, "ending")
    if word == "pending" and "held" in reason.lower():  # JobHeldUser, JobHeldAdmin, "launch failed requeued held"
        word = "held"
    return JobState(name, element, word, host, reason if word != "running" else "")
