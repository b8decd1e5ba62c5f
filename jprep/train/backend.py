"""The planner of a backend: the base class, and the types that it exchanges with the core. No framework is imported."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import msgspec

from jprep.train.job.config import Job
from jprep.train.job.renamed import parse_options

WORKER_VARIABLES = {
    "TOKENIZERS_PARALLELISM": "false",
    "HF_HUB_OFFLINE": "1",
    "PYTHONUNBUFFERED": "1",
    "PYTHONSAFEPATH": "1",  # files in the working directory do not shadow libraries
}
"""Environment variables that every worker needs, for `Plan.env`."""


def large_pages() -> dict[str, str]:
    """Return the variable with which glibc's malloc uses pages of 2 MiB; a value set by the user is kept.

    It is for workers whose framework allocates a step's arrays anew each time, as XLA does on CPUs: in pages of 4 KiB,
    that takes up to a fifth of the step.
    """
    return {"GLIBC_TUNABLES": os.environ.get("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1")}


DeviceKind = Literal["cpu", "gpu", "tpu"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check of this machine or of a backend's options.

    Attributes:
        what: one sentence without a full stop.
        level: `ok`, `note` (worth knowing) or `error` (a run would fail).
        fix: the command or the setting that resolves it, or "".
    """

    what: str
    level: Literal["ok", "note", "error"] = "ok"
    fix: str = ""


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The Python environment that a backend's worker runs in.

    Attributes:
        name: of its directory.
        distribution: the distribution whose extras are installed there.
        extras: names of these extras. Packages of `EXTRA-no-deps` are installed afterwards, without their dependencies.
        also: names of other environments to use if this one is not installed.
        needs: a module that must be importable besides the worker, if no environment is installed and jprep's own
            interpreter is tried.
        install: the argument of `jprep backends install` that creates it.
    """

    name: str
    distribution: str
    extras: tuple[str, ...] = ("worker",)
    also: tuple[str, ...] = ()
    needs: str = ""
    install: str


class Nodes(msgspec.Struct, frozen=True):
    """The hosts of `train.hosts` that a plan is made for.

    Attributes:
        count: number of hosts.
        slots: processes for each host according to the hostfile or the scheduler; 0 if it does not say.
        gpus: GPUs of each host according to the scheduler; 0 if it does not say.
        strict: whether `slots` is a limit.
    """

    count: int
    slots: int = 0
    gpus: int = 0
    strict: bool = False


class Host(msgspec.Struct, frozen=True):
    """The machine that a plan is made on.

    Attributes:
        python: the interpreter of the backend's environment.
        cores: number of CPU cores.
        memory: bytes of main memory.
        devices: names of its accelerators.
        device_memory: bytes of the smallest accelerator; 0 if unknown.
        nodes: the hosts of the run, all like this one; None if it runs on this machine and the backend starts its
            processes itself.
    """

    python: str
    cores: int
    memory: int
    devices: tuple[str, ...] = ()
    device_memory: int = 0
    nodes: Nodes | None = None


Starter = Literal["srun", "ssh", "pbs_tmrsh", "qrsh", "join"]
"""The program that starts a launcher on each host of a run; `join`: each host runs `jprep train` itself."""


class Placement(msgspec.Struct, frozen=True):
    """Where jprep starts the processes of a plan.

    Attributes:
        starter: the program that starts a launcher on each host.
        names: the hosts, the first of which has rank 0.
        address: address of the first host for the other ones; "" to find it there.
    """

    starter: Starter
    names: tuple[str, ...]
    address: str = ""


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """The devices that a plan is made for, on this machine or another one.

    Attributes:
        name: of one device, for messages: `an NVIDIA A100`, `this machine`.
        kind: `cpu`, `gpu` or `tpu`.
        count: number of devices of the whole run.
        memory: bytes of one device that a plan can use; 0 if unknown.
        host_memory: bytes of main memory for each process; 0 if unknown.
        on_host: whether the device computes in main memory, so that `memory` and `host_memory` are the same.
        hosts: number of hosts.
        elsewhere: whether they are those of another machine.
    """

    name: str
    kind: DeviceKind
    count: int = 1
    memory: int = 0
    host_memory: int = 0
    on_host: bool = False
    hosts: int = 1
    elsewhere: bool = False


class MicroBatchEstimate(msgspec.Struct, frozen=True):
    """The estimated memory of a micro-batch that is smaller than the plan's.

    Attributes:
        rows: the micro-batch, as the backend's option `micro_batch` takes it.
        memory: bytes on one device.
        host_memory: bytes of main memory for each process, for offloaded tensors.
    """

    rows: int
    memory: int
    host_memory: int = 0


class Plan(msgspec.Struct, frozen=True):
    """How a job is run.

    `processes × micro_batch × accumulate` is the global batch.

    Attributes:
        argv: the command that starts the worker, `python -m jprep_<name>.worker train RUN`, or a launcher of it.
        env: environment variables of the worker.
        processes: number of processes of the run.
        micro_batch: rows that pass through the model at a time, in each process. Written as `rows` in files.
        accumulate: number of micro-batches whose gradients are accumulated before an update.
        memory: estimated bytes of weights, gradients, optimizer and activations on one device.
        notes: sentences for the user: which layouts fit, commands to type on other machines.
        settings: the framework's own configuration, generated from the job, if it has one.
        machines: number of machines, one process each, if the user starts a worker on every machine but the first:
            there `argv` runs with `--process N` appended, N from 1. 1 if there is nothing to start elsewhere. With
            `Host.nodes`, their number.
        target: the devices that the plan is made for; None for the machine that jprep plans on.
        host_memory: estimated bytes of main memory for each process besides `memory`, for offloaded tensors.
        smaller: smaller micro-batches, the largest first: what to try if memory runs out.
        vocabulary: number of ids with the padding of `train.model.pad_vocab`, which takes no part in the softmax and
            is not in checkpoints and exports; 0 if the backend does not pad.
        divided: whether processes write pieces of tensors, which the first one joins: a checkpoint that is being
            written takes twice its size.
        placement: the hosts of the run; set by jprep if the plan was made for `Host.nodes`. Then `argv` is the command
            of one process, which gets its rank in the variables of torchrun.
    """

    argv: tuple[str, ...]
    env: dict[str, str]
    processes: int
    micro_batch: int = msgspec.field(name="rows")
    accumulate: int
    memory: int
    notes: tuple[str, ...] = ()
    settings: dict[str, Any] = {}
    machines: int = 1
    target: Target | None = None
    host_memory: int = 0
    smaller: tuple[MicroBatchEstimate, ...] = ()
    vocabulary: int = 0
    divided: bool = False
    placement: Placement | None = None


class Backend(ABC):
    """Base class of a backend's planner.

    The planner runs in jprep's process and imports no framework. It checks options and plans jobs. The framework is
    imported by the worker, a program that runs in the backend's own environment
    (`jprep.train.launcher.environments.worker_python`):

    - `python -m <module>.worker train RUN`, which `plan` returns alone or inside a launcher's command, opens a
      `Session` and trains to its end;
    - `python -m <module>.worker export RUN CHECKPOINT DIR` writes `DIR/model.safetensors`: the weights of the
      checkpoint in fp32 under transformers' names and shapes, tied weights once, no other tensors
      (`jprep.train.models.parameters`);
    - `python -m <module>.worker infer DIR` loads an exported model and answers requests: one per line from
      standard input, one prediction a line to standard output, in order (types: `jprep.train.inference.protocol`).

    Subclasses set the class attributes and implement `check` and `plan`.

    Attributes:
        name: the backend's name, as in `--backend`.
        module: the package that contains the module or package `worker`.
        distribution: the distribution that contains the package. Its extra `worker` lists what the worker needs.
        Options: the type of `[train.backend.NAME]`: a msgspec Struct that forbids unknown fields.
        tasks: the tasks that it may train; `plan` may refuse some of them. A task that it does not name, such as one
            that a later version of jprep added, is refused.
        features: those of `jprep.train.job.features.FEATURES` that it follows. A job that uses another one is refused.
        hooks: the module of the worker whose `check_hooks` tries a user's loss and head
            (`jprep.train.hooks.check.FrameworkCheck`); "" if the worker calls no hooks.
        no_hooks_reason: why it calls none.
        framework: the key of `Family.models` with the models of plugins that its worker trains; "" if it trains none.
        scores: whether its inference server answers `Score` (`jprep.train.inference.protocol`).
        evaluates: whether its worker only validates if the session has an `evaluated_split`, for `jprep evaluate`.
        several_hosts: whether `plan` supports `Host.nodes`: its worker takes its rank from torchrun's variables.
    """

    name: ClassVar[str]
    module: ClassVar[str]
    distribution: ClassVar[str]
    Options: ClassVar[type[Any]]
    tasks: ClassVar[tuple[str, ...]] = ("clm", "mlm", "classify", "regress")
    features: ClassVar[tuple[str, ...]] = ()
    hooks: ClassVar[str] = ""
    no_hooks_reason: ClassVar[str] = "its worker has no place for them"
    framework: ClassVar[str] = ""
    scores: ClassVar[bool] = False
    evaluates: ClassVar[bool] = False
    several_hosts: ClassVar[bool] = False

    @abstractmethod
    def check(self, options: Any) -> list[Finding]:
        """Return what this machine and the worker's environment offer, and what would make a run fail.

        Args:
            options: the backend's options, an `Options`.
        """

    @abstractmethod
    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """Return how a job is run on a machine. The same arguments give the same plan.

        Args:
            job: the job; `job.options` holds the backend's options as plain data.
            run: the run directory, which need not exist yet.
            host: the machine.

        Raises:
            ConfigError: the job cannot be run this way: the batch cannot be divided, or the backend does not support
                the task, the model or a combination of options.
        """

    def read_options(self, given: Mapping[str, Any]) -> Any:
        """Return the backend's options from plain data: a recipe's section, or `job.options`.

        Options under an old name are accepted with a warning: see `jprep.train.job.renamed`.

        Raises:
            ConfigError: an unknown option, a value of the wrong type, or an option given under both names.
        """
        return parse_options(self, given)

    def hosts(self, options: Any) -> str:
        """Return the option that earlier versions had for `train.hosts`; "" if there is none."""
        return ""

    def environment(self, options: Any) -> Environment:
        """Return the environment that the worker runs in: by default one under the backend's name.

        Override it if some options need another environment.
        """
        return Environment(name=self.name, distribution=self.distribution, install=self.name)

    def result_options(self, options: Any) -> dict[str, Any]:
        """Return the options that change what is computed, by name, without those at their neutral value.

        They become part of the job, and a run resumes only with the same values. By default there are none: options
        change how a job is computed, and not its result.
        """
        return {}

    def check_environment(self, options: Any) -> dict[str, str]:
        """Return environment variables of the check of hooks, which must be set before the framework is imported."""
        return {}
