"""A backend `numpy` that really trains: a planner, and a worker around `training_worker`.

`offer` installs both for processes that are started with a distribution's `env`. Its model is linear and unrelated to
the job's.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from jprep.errors import ConfigError
from jprep.train.backend import Backend, Environment, Finding, Host, Plan
from jprep.train.job.config import Job
from tests.conftest import Distribution
from tests.fakes.backend_distribution import add_backend

WORKER = """import sys
from pathlib import Path
from jprep.train.worker.session import run_worker
from tests.fakes.training_worker import train
if __name__ == "__main__":
    assert sys.argv.pop(1) == "train"
    sys.exit(run_worker(train, Path(sys.argv[1])))
"""


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    micro_batch: int = 0
    device: str = ""


class Numpy(Backend):
    name: ClassVar[str] = "numpy"
    module: ClassVar[str] = "numpy_framework"
    distribution: ClassVar[str] = "jprep_numpy"
    Options: ClassVar[type[Any]] = Options
    evaluates: ClassVar[bool] = True

    def environment(self, options: Any) -> Environment:
        if not options.device:
            return super().environment(options)
        name = f"{self.name}-{options.device}"
        return Environment(
            name=name, distribution=self.distribution, install=f"{self.name} --set device={options.device}"
        )

    def check(self, options: Any) -> list[Finding]:
        return [Finding("numpy is there"), Finding("it is slow", "note", "use another backend")]

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        rows = job.options["micro_batch"] or job.train.batch
        if job.train.batch % rows:
            raise ConfigError(
                "the batch cannot be divided", where="train.backend.numpy.micro_batch", fix="micro_batch = 1"
            )
        argv = (host.python, "-m", f"{self.module}.worker", "train", str(run))
        return Plan(
            argv, {"OMP_NUM_THREADS": "1"}, 1, rows, job.train.batch // rows, int(os.environ.get("NUMPY_MEMORY", "1"))
        )


def offer(distribution: Distribution) -> dict[str, str]:
    """Add the backend to a distribution. Return the environment variables with which a process finds it."""
    return add_backend(distribution, Numpy.name, "tests.fakes.numpy_backend:Numpy", Numpy.module, WORKER)
