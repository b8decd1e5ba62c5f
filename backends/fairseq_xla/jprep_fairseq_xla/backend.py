"""The light half: how a job is divided among devices and micro-batches, and what fairseq is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from jprep.errors import ConfigError, JprepError
from jprep.train.backend import Environment, Finding, Host, MicroBatchEstimate, Plan, Target
from jprep.train.job.config import Job
from jprep.train.launcher.environments import worker_python
from jprep.train.launcher.import_probe import run_probe
from jprep.train.models import training_memory
from jprep.train.planning.host import tpu_count
from jprep.train.planning.memory_fit import (
    DeviceKind,
    choose_micro_batch,
    fits_memory,
    make_target,
    smaller_micro_batches,
)
from jprep_fairseq_xla.options import RESULT_OPTIONS, SECTION, Device, Options
from jprep_fairseq_xla.planning.fairseq_options import training_options
from jprep_torch.backend import torchrun_command, worker_environment
from jprep_torch.planning import xla

_ASK = (
    "import sys; from jprep_fairseq_xla.worker.environment_report import print_environment_report; "
    "sys.exit(print_environment_report({!r}))"
)


class Layout(NamedTuple):
    """How a global batch lies on the devices.

    Attributes:
        device: `cpu` or `xla`.
        processes: how many of a CPU; 1 of XLA.
        hosts: how many, with a process on each.
        devices: of all hosts.
        rows: that go through the model at a time, on all devices together, or in each process of a CPU.
        memory: bytes on one device, estimated.
        target: what it is for.
        smaller: smaller micro-batches.
    """

    device: Device
    processes: int
    hosts: int
    devices: int
    rows: int
    memory: int
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]


class FairseqXla:
    """fairseq on XLA's devices, or on a CPU."""

    name: ClassVar[str] = "fairseq-xla"
    module: ClassVar[str] = "jprep_fairseq_xla"
    distribution: ClassVar[str] = "jprep-fairseq-xla"
    Options: ClassVar[type[Any]] = Options

    def home(self, options: Any) -> Environment:
        """Plain fairseq takes any PyTorch, torch_xla only its own."""
        if _device(options) == "xla":
            return xla.TORCH_XLA_ENVIRONMENT
        install = f"{self.name} --set device=cpu"
        return Environment(
            name="fairseq-cpu", distribution=self.distribution, also=(xla.TORCH_XLA_ENVIRONMENT.name,), install=install
        )

    def check(self, options: Any) -> list[Finding]:
        """Whether its environment has the versions that the mends are for, and the device that is asked for."""
        device = _device(options)
        try:
            found = [Finding(_ask(worker_python(self, options), device))]
        except JprepError as error:
            fix = f"jprep backends install {self.home(options).install} --restart"
            return [Finding(error.what, "error", error.fix or fix)]
        if options.device == "xla" and not tpu_count():
            found.append(Finding("there is no TPU here: XLA computes on the CPU", "note", 'device = "cpu" is faster'))
        return found

    def computed(self, options: Any) -> dict[str, Any]:
        """Of the options those that change what is computed."""
        return {name: value for name, value in options.options.items() if name in RESULT_OPTIONS and value}

    def plan(self, job: Job, run: Path, host: Host) -> Plan:
        """One process for all of a host's devices of XLA, or so many on a CPU.

        Raises:
            ConfigError: the batch cannot be divided, fairseq has no such model, or an option has no effect.
        """
        options = msgspec.convert(job.options, Options)
        layout = _layout(job, options, host)
        accumulate = job.train.batch // layout.processes // layout.rows
        settings = training_options(job, layout.device, layout.processes, accumulate, options.options)
        verb = ["train", str(run), "--device", layout.device, *xla.worker_flags(layout.devices, layout.hosts)]
        verb += ["--rows", str(layout.rows), "--settings", json.dumps(settings)]
        env = worker_environment(host, layout.device, layout.processes, options.threads, deterministic=True)
        return Plan(
            argv=(host.python, *torchrun_command(layout.processes), "jprep_fairseq_xla.worker", *verb),
            env=env | (xla.environment_variables(layout.devices) if layout.device == "xla" else {}),
            processes=layout.processes * layout.hosts,
            machines=layout.hosts,
            rows=layout.rows // layout.hosts,
            accumulate=accumulate,
            memory=layout.memory,
            notes=_notes(run, layout),
            settings=settings,
            target=layout.target,
            smaller=layout.smaller,
        )


def _notes(run: Path, layout: Layout) -> tuple[str, ...]:
    if layout.device == "cpu":
        return ("plain fairseq on the CPU",)
    return xla.plan_notes(run, layout.devices, layout.hosts)


def _device(options: Options) -> Device:
    if options.device == "auto":
        return "xla" if tpu_count() else "cpu"
    return options.device


def _ask(python: Path, device: Device) -> str:
    """What its environment has, in words."""
    done = run_probe(python, _ASK.format(device))
    if done.returncode:
        what, _, fix = done.stdout.strip().partition("\n")
        raise ConfigError(what or (done.stderr.strip().splitlines() or ["it says nothing"])[-1], fix=fix)
    return done.stdout.strip()


def _layout(job: Job, options: Options, host: Host) -> Layout:
    device, batch = _device(options), job.train.batch
    _check(options, device)
    devices = xla.xla_device_count(options.devices, options.hosts) if device == "xla" else 1
    parts = options.processes * devices
    if batch % parts:
        what = f"a batch of {batch} rows cannot be divided among {parts} {'devices' if devices > 1 else 'processes'}"
        raise ConfigError(
            what, where=SECTION, fix=f"take a multiple of {parts} as train.batch, or fewer under {SECTION}"
        )
    own = batch // parts
    kind: DeviceKind = "tpu" if device == "xla" and tpu_count() else "cpu"
    target = make_target(host, kind, per_host=parts // options.hosts, hosts=options.hosts, given=options.memory)

    def fits(rows: int) -> bool:
        return fits_memory(target, _memory(job, rows)) is not False

    rows = choose_micro_batch(own, options.rows, fits, SECTION)
    smaller = smaller_micro_batches(own, rows, lambda fewer: _memory(job, fewer))
    memory = _memory(job, rows)
    return Layout(device, options.processes, options.hosts, devices, rows * devices, memory, target, smaller)


def _check(options: Options, device: Device) -> None:
    if min(options.devices, options.rows, options.threads, options.memory) < 0 or options.processes < 1:
        fix = "0 lets jprep choose, but for processes, of which there is one or more"
        raise ConfigError("devices, rows, threads and memory are 0 or more", where=SECTION, fix=fix)
    xla.check_hosts(options.hosts, device, SECTION)
    if device == "xla" and options.processes > 1:
        fix = f"set {SECTION}.devices: one process divides the batch among them"
        raise ConfigError("XLA's devices have one process of a host", where=f"{SECTION}.processes", fix=fix)
    if device == "cpu" and options.devices > 1:
        fix = f'set {SECTION}.processes, or device = "xla"'
        raise ConfigError("plain fairseq has processes, not devices", where=f"{SECTION}.devices", fix=fix)


def _memory(job: Job, rows: int) -> int:
    """Bytes on one device: fairseq keeps attention's matrices, and the table of tokens by ids."""
    section = job.train
    return training_memory(job.model, section.task, rows, section.length, section.precision, attention=True)
