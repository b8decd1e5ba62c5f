"""The planner: checks the machine, and plans how a job runs. It imports no framework."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

from jprep.train.backend import Backend, Finding, Host, Plan
from jprep.train.job.config import Job
from jprep.train.planning.checks import inspect_environment
from jprep_new_backend.options import Options
from jprep_new_backend.planning.checks import environment_findings
from jprep_new_backend.planning.launch import worker_command, worker_environment
from jprep_new_backend.planning.layout import choose_layout


class NewBackend(Backend):
    """Numpy in one process."""

    name: ClassVar[str] = "new-backend"
    module: ClassVar[str] = "jprep_new_backend"
    distribution: ClassVar[str] = "jprep-new-backend"
    Options: ClassVar[type[Any]] = Options
    evaluates: ClassVar[bool] = True

    def check(self, options: Any) -> list[Finding]:
        """Return what the environment has, and what would make a run fail."""
        return inspect_environment(self, options, environment_findings)

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Plan a job for a machine.

        Raises:
            ConfigError: the backend does not support the job, or the batch cannot be divided.
        """
        options = self.read_options(job.options)
        layout = choose_layout(job, options, host)
        return Plan(
            argv=(host.python, *worker_command(layout, run)),
            env=worker_environment(options, host),
            processes=1,
            micro_batch=layout.micro_batch,
            accumulate=layout.accumulate,
            memory=layout.memory,
            target=layout.target,
            smaller=layout.smaller,
        )
