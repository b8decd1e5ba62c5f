"""Jobs of batch schedulers, in terms that all of them have."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec

from jprep.config import ConfigSection
from jprep.errors import ConfigError

ELEMENT = "{element}"
"""The word of a job's command that is replaced by the number of the array's element."""

_TIME = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d\d))?(?::(\d\d))?")


class Resources(ConfigSection, frozen=True):
    """What a job asks for. Empty values are left to the scheduler's defaults.

    Attributes:
        partition: partition or queue.
        account: account or project that is charged.
        qos: quality of service; of Slurm only.
        time: time limit, `HH:MM:SS` or `D-HH:MM:SS`.
        memory: memory per node, in the scheduler's form: `16G`.
        cpus: processors per task; 0 for the scheduler's default.
        gpus: GPUs per node.
        requeue: whether the scheduler may start the job again after a node's failure or a preemption.
        warn: seconds before the time limit at which the job gets SIGUSR1, where the scheduler can do that.
        options: further options of `sbatch` or `qsub`, each one line of the script's head.
        setup: shell lines before the command, e.g. `module load python`.
    """

    partition: str = ""
    account: str = ""
    qos: str = ""
    time: str = ""
    memory: str = ""
    cpus: int = 0
    gpus: int = 0
    requeue: bool = True
    warn: int = 120
    options: list[str] = []
    setup: list[str] = []


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job, or an array of jobs that differ in a number.

    Attributes:
        name: its name in the scheduler's lists.
        command: the words of the command; `ELEMENT` stands for the number of the array's element.
        logs: directory of the log files; it must exist when the job starts.
        folder: the directory in which the command runs.
        resources: what each element asks for.
        elements: the numbers of the array's elements; None for a single job. A script that is only shown may have no
            numbers yet: `[]`.
        nodes: number of nodes of each element.
        tasks_per_node: number of processes per node that a launcher starts.
        launcher: words before the command that start it on each node, e.g. `srun`.
        warn_steps: whether the launched processes get the warning signal, instead of the script.
        after: ids of jobs that must have ended, in any way, before this one starts.
        environment: variables of the command.
    """

    name: str
    command: list[str]
    logs: Path
    folder: Path
    resources: Resources = Resources()
    elements: list[int] | None = None
    nodes: int = 1
    tasks_per_node: int = 1
    launcher: list[str] = []
    warn_steps: bool = False
    after: list[str] = []
    environment: dict[str, str] = {}

    def __post_init__(self) -> None:
        """Replace what no scheduler takes in a name."""
        msgspec.structs.force_setattr(self, "name", re.sub(r"[^\w.-]+", "_", self.name))

    @property
    def is_array(self) -> bool:
        """Whether it has several elements, or a number of them that is not known yet."""
        return self.elements is not None and len(self.elements) != 1


class JobState(msgspec.Struct, frozen=True):
    """A job, or elements of an array, that the scheduler still has.

    Attributes:
        id: the job's id, as `submit` returned it.
        element: the elements in the scheduler's form, e.g. `3` or `[4-9]`; empty for a single job.
        state: `pending`, `running`, `ending` or `held`.
        host: where it runs.
        reason: why it waits, in the scheduler's words.
    """

    id: str
    element: str
    state: str
    host: str = ""
    reason: str = ""


def seconds(time: str) -> int:
    """Return a time limit in seconds.

    Raises:
        ConfigError: it has a different form than `MM`, `HH:MM:SS`, `D-HH` or `D-HH:MM:SS`.
    """
    if not (found := _TIME.fullmatch(time)):
        raise ConfigError(f"{time!r} is not a time limit", where="[executor] time", fix='e.g. time = "24:00:00"')
    days, first, second, third = (int(each or 0) for each in found.groups())
    if found[1]:
        return ((days * 24 + first) * 60 + second) * 60 + third
    if found[4]:
        return (first * 60 + second) * 60 + third
    return first * 60 + second


def clock(total: int) -> str:
    """Return seconds as `HH:MM:SS`."""
    return f"{total // 3600:02}:{total // 60 % 60:02}:{total % 60:02}"
