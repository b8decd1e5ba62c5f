"""A backend's light half: what it can say of a job without loading its framework. Its heavy half is a program."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import msgspec

from jprep.train.job.config import Job


class Finding(msgspec.Struct, frozen=True):
    """Something that a backend found out about this machine or about its options.

    Attributes:
        what: one sentence without a full stop.
        level: whether it is well, worth knowing, or in the way.
        fix: the command or the setting that mends it, or "".
    """

    what: str
    level: Literal["ok", "note", "error"] = "ok"
    fix: str = ""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The environment that a backend runs in.

    Attributes:
        name: its folder's.
        distribution: whose extras say what is installed there.
        extras: those; what `EXTRA-no-deps` names is installed after that, without its own requirements.
        also: environments that will do where it is not there.
        needs: a module that has to be there too, where no environment is and the one that jprep runs in is tried.
        install: what `jprep backends install` is to be told to make it.
    """

    name: str
    distribution: str
    extras: tuple[str, ...] = ("worker",)
    also: tuple[str, ...] = ()
    needs: str = ""
    install: str


class Host(msgspec.Struct, frozen=True):
    """The machine that a plan is made for.

    Attributes:
        python: the interpreter of the backend's own environment.
        cores: processor cores.
        memory: bytes.
        devices: accelerators, by name.
        device_memory: bytes of the smallest of them; 0 where it is not known.
    """

    python: str
    cores: int
    memory: int
    devices: tuple[str, ...] = ()
    device_memory: int = 0


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that a plan is made for, of this machine or of another one.

    Attributes:
        name: of one device, for messages: `an NVIDIA A100`, `this machine`.
        kind: what computes.
        count: devices of the whole run.
        memory: bytes that one device has for a plan's `memory`; 0 where it is not known.
        host_memory: bytes of its host's memory for each process; 0 where it is not known.
        on_host: whether the device computes in its host's memory, so that both are one.
    """

    name: str
    kind: Literal["cpu", "gpu", "tpu"]
    count: int = 1
    memory: int = 0
    host_memory: int = 0
    on_host: bool = False


class MicroBatchEstimate(msgspec.Struct, frozen=True):
    """A smaller number of rows at a time than a plan has.

    Attributes:
        rows: as the backend's option `rows` has it.
        memory: bytes on one device, estimated.
        host_memory: bytes of its host's, estimated.
    """

    rows: int
    memory: int
    host_memory: int = 0


class Plan(msgspec.Struct, frozen=True):
    """How a job is run.

    Attributes:
        argv: the worker's command: `python -m jprep_<name>.worker train RUN`, or a launcher of it.
        env: environment variables that it needs.
        processes: how many processes take part.
        machines: how many the run is of. A user starts `jprep.train.launcher.multihost` on each other one, which
            starts `argv` with `--process N` (N from 1 on), one process of the run each. 1 where there are no others.
        rows: rows of a batch for each process at a time; gradients are accumulated over the others.
        accumulate: how many times.
        memory: bytes for weights, gradients, optimizer and activations on one device, estimated.
        notes: what a user should know of it, a sentence each: what fits, what is to be typed on other machines.
        settings: the framework's own configuration, made from the job, where it has one.
        target: the devices that it is made for; None takes the machine that jprep plans on.
        host_memory: bytes of a process's host that are taken besides, estimated: what is offloaded there.
        smaller: smaller micro-batches, the largest first, for the advice where memory runs out.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    processes: int
    rows: int
    accumulate: int
    memory: int
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    machines: int = 1
    target: Target | None = None
    host_memory: int = 0
    smaller: tuple[MicroBatchEstimate, ...] = ()


class Backend(Protocol):
    """A backend's light half.

    Its worker is a program with three commands, run by the Python of the backend's environment:

    - `python -m <module>.worker train RUN`, or a launcher of it, is what `plan` gives: a `Session` to its end;
    - `… export RUN CHECKPOINT FOLDER` writes `FOLDER/model.safetensors`: the checkpoint's weights in fp32 under
      transformers' names and shapes, tied ones once, none left out, none added (`jprep.train.models.parameters`);
    - `… infer FOLDER` loads an exported directory and answers requests, a line of JSON each, from standard input to
      standard output, in order: `jprep.train.inference.protocol` has their types.

    Two methods may be left out: `home(options)`, the environment that it runs in (`environment_of`), and
    `computed(options)`, options that change what is computed (`result_options_of`).

    Attributes:
        name: as in `--backend`.
        module: the package of its heavy half.
        distribution: what it is installed as. Its extra `worker` names what the heavy half needs.
        Options: its own options: a msgspec Struct that forbids unknown fields.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    distribution: ClassVar[str]
    Options: ClassVar[type[Any]]

    def check(self, options: Any) -> list[Finding]:
        """What is well and what is not, on this machine, with these options."""

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """How the job is run there; `job.options` are its own options, checked.

        Args:
            job: the job.
            run: the run directory, which need not be there yet.
            host: the machine.

        Raises:
            ConfigError: it cannot be: a batch that cannot be divided, a task or a model that the backend does not have.
        """


def environment_of(half: Backend, options: Any) -> Environment:
    """Where a backend runs with these options of its own.

    One that has several environments has a method `home(options)`, which says it; others have one under their name.
    """
    chosen: Environment = half.home(options) if hasattr(half, "home") else default_environment(half)
    return chosen


def default_environment(half: Backend) -> Environment:
    """The environment under a backend's own name."""
    return Environment(name=half.name, distribution=half.distribution, install=half.name)


def result_options_of(half: Backend, options: Any) -> dict[str, Any]:
    """Of a backend's own options those that change what is computed, by name; none that are as if they were left out.

    One that has such options has a method `computed(options)`, which gives them: they become part of the job. The
    options of others change how it is computed, and not what.
    """
    found: dict[str, Any] = half.computed(options) if hasattr(half, "computed") else {}
    return found
