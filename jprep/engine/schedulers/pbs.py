"""PBS Professional and OpenPBS."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from jprep.engine.schedulers.job import Job, JobState, clock, seconds
from jprep.engine.schedulers.scheduler import Scheduler, scheduler_output_path

_STATES = {"Q": "pending", "W": "pending", "T": "pending", "R": "running", "B": "running", "E": "ending"}
_STATES |= {"H": "held", "S": "held", "U": "held"}
_ENDED = ("F", "X", "M")
_ENDED_CODES = (35, 153)
"""Exit codes of `qstat`: the job has finished; it is unknown."""

_SUBJOB = re.compile(r"(\d+)\[(\d*)\](.*)")


class Pbs(Scheduler):
    """PBS Pro: `qsub`, `qstat`, `qdel`.

    It warns before the time limit by SIGTERM only, and its arrays have at least two elements.
    """

    name, program, prefix = "pbs", "qsub", "#PBS"
    index, job_id = "$PBS_ARRAY_INDEX", "${PBS_JOBID//[^0-9]*/}"

    def directives(self, job: Job) -> list[str]:
        """Return the options of `qsub`."""
        asked = job.resources
        parts = {"ncpus": asked.cpus or "", "mem": asked.memory and f"{asked.memory.rstrip('bB')}b".lower()}
        parts |= {"ngpus": asked.gpus or "", "mpiprocs": job.tasks_per_node if job.tasks_per_node > 1 else ""}
        select = ":".join([str(job.nodes), *(f"{name}={value}" for name, value in parts.items() if value)])
        options = {
            "-N": job.name,
            "-J": (f"0-{len(job.elements) - 1}" if job.elements else "0-LAST") if job.is_array else "",
            "-W": ":".join(["depend=afterany", *job.after]) if job.after else "",
            "-q": asked.partition,
            "-P": asked.account,
            "-l": f"select={select}",
            "-r": "y" if asked.requeue or job.is_array else "n",  # an array must be rerunnable
            "-j": "oe",
            "-o": scheduler_output_path(f"{job.logs}/", ":,$#"),
            "-S": "/bin/bash",
        }
        time = [f"-l walltime={clock(seconds(asked.time))}"] if asked.time else []
        return [*(f"{name} {value}" for name, value in options.items() if value), *time, "-V"]

    def submit_command(self) -> list[str]:
        """Return the command that submits a script."""
        return ["qsub"]

    def parse_id(self, answer: str) -> str:
        """Return the id, e.g. `12[].server`."""
        return answer.strip().splitlines()[-1]

    def states(self, ids: list[str]) -> list[JobState]:
        """Return the jobs that `qstat` lists, without finished ones."""
        found: list[JobState] = []
        for job in ids:
            done = self.run_program(["qstat", "-t", "-f", "-F", "json", job])
            if done.returncode in _ENDED_CODES:
                continue
            if done.returncode:
                raise self.command_error("qstat", done.stderr)
            found += _parse(job, done.stdout)
        return found

    def cancel_command(self, job_id: str) -> list[str]:
        """Return the command that cancels a job."""
        return ["qdel", job_id]

    def array_limit(self) -> int | None:
        """Return the server's limit."""
        done = self.run_program(["qstat", "-B", "-f", "-F", "json"])
        found = re.search(r'"max_array_size"\s*:\s*"?(\d+)', done.stdout)
        return int(found[1]) if found else None


def _parse(job: str, answer: str) -> list[JobState]:
    jobs: dict[str, dict[str, Any]] = msgspec.json.decode(answer).get("Jobs", {})
    subjobs = {name: fields for name, fields in jobs.items() if name != job} or jobs
    return [
        JobState(
            job, _element(name), _STATES.get(str(fields.get("job_state")), "ending"), _host(fields), _reason(fields)
        )
        for name, fields in subjobs.items()
        if fields.get("job_state") not in _ENDED
    ]


def _element(name: str) -> str:
    found = _SUBJOB.fullmatch(name)
    return found[2] if found else ""


def _host(fields: dict[str, Any]) -> str:
    return str(fields.get("exec_host", "")).split("/")[0]


def _reason(fields: dict[str, Any]) -> str:
    return str(fields.get("comment", "")) if fields.get("job_state") != "R" else ""
