"""The layout of a job: processes, the mesh of devices and the micro-batch."""

from __future__ import annotations

import math

import msgspec

from jprep.errors import ConfigError
from jprep.train.backend import Host, MicroBatchEstimate, Target
from jprep.train.hosts.processes import host_count, processes_per_host
from jprep.train.job.config import Job
from jprep.train.planning.host import tpu_count
from jprep.train.planning.machine import check_machine, detect_device, devices_per_host
from jprep.train.planning.memory_fit import fits_memory, make_target
from jprep.train.planning.micro_batch import choose_micro_batch, rows_per_device
from jprep_flax.options import SECTION, Device, Options
from jprep_flax.planning.checks import check_model_sharding, check_options
from jprep_flax.planning.memory import estimate_memory

_LANES = 128  # numbers that a TPU's matrix unit processes side by side


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The layout of a job.

    Attributes:
        device: `cpu`, `gpu` or `tpu`.
        devices: devices of each process.
        processes: number of processes.
        mesh: sizes of the axes data, fsdp and tensor.
        micro_batch: rows of a process that go through the model at a time, on all of its devices together.
        accumulate: number of micro-batches of an update.
        coordinator: address and port of the first of several machines; "" for a single machine.
        per_host: number of processes that jprep starts on each host of `train.hosts`; 0 without them.
        vocabulary: rows of the token embedding: `vocab_size`, or more so that they can be sharded.
        memory: bytes on one device, estimated.
        target: the devices that the layout is for.
        smaller: smaller micro-batches.
    """

    device: str
    devices: int
    processes: int
    mesh: tuple[int, int, int]
    micro_batch: int = msgspec.field(name="rows")
    accumulate: int
    coordinator: str
    per_host: int = 0
    vocabulary: int
    memory: int
    target: Target | None = None
    smaller: tuple[MicroBatchEstimate, ...] = ()

    @property
    def world(self) -> int:
        """Number of devices of all processes."""
        return self.devices * self.processes

    @property
    def divided(self) -> bool:
        """Whether weights are sharded among processes, and not only among the devices of each."""
        return self.devices % (self.mesh[1] * self.mesh[2]) > 0


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Choose a layout.

    Raises:
        ConfigError: an axis cannot be sharded as asked, an option is out of its range, or there is no such model.
    """
    check_options(job, options)
    device: Device = detect_device(options, host) if options.device == "auto" else options.device
    check_machine(options, options.device, device, SECTION)
    per_host = _processes_per_host(options, device, host)
    options = msgspec.structs.replace(options, processes=per_host * host_count(host))
    devices = options.devices or _devices_per_process(options, device, host, per_host)
    target = _target(options, host, device, devices * per_host)
    mesh = _mesh_shape(job, options, devices * options.processes, target)
    check_model_sharding(job, mesh)
    shards = mesh[0] * mesh[1]

    def estimate(rows: int) -> int:
        return estimate_memory(job, options, mesh, rows)

    rows = rows_per_device(job.train.batch, shards, SECTION)
    chosen = choose_micro_batch(rows, options.micro_batch, estimate, target, SECTION)
    return Layout(
        device=device,
        devices=devices,
        processes=options.processes,
        mesh=mesh,
        micro_batch=chosen.rows * shards // options.processes,
        accumulate=chosen.accumulate,
        coordinator=options.coordinator,
        per_host=per_host if host.nodes else 0,
        vocabulary=_embedding_rows(job, device, mesh[2]),
        memory=chosen.memory,
        target=target,
        smaller=chosen.smaller,
    )


def _processes_per_host(options: Options, device: str, host: Host) -> int:
    """Return the number of processes on each host, or on this machine."""
    if not host.nodes:
        return options.processes
    if options.coordinator:
        fix = "remove coordinator: the processes find the first host themselves"
        raise ConfigError("both train.hosts and a coordinator are given", where=f"{SECTION}.coordinator", fix=fix)
    return processes_per_host(options.processes, host, SECTION, on_gpus=device == "gpu")


def _devices_per_process(options: Options, device: str, host: Host, per_host: int) -> int:
    processes = 1 if options.coordinator else per_host
    named = devices_per_host(options, options.processes if options.coordinator else host_count(host), SECTION)
    gpus = (host.nodes.gpus if host.nodes else 0) or len(host.devices)
    count = {"gpu": gpus, "tpu": named or tpu_count(), "cpu": processes}[device] or 1
    if count % processes:
        fix = f"use processes = 1, which drives all of them, or set {SECTION}.devices"
        raise ConfigError(f"{count} devices cannot be divided among {processes} processes", where=SECTION, fix=fix)
    return count // processes


def _target(options: Options, host: Host, device: Device, per_host: int) -> Target:
    """Return the devices to plan for; with a coordinator each process runs on a machine of its own."""
    hosts = host_count(host)
    if options.coordinator:
        per_host, hosts = per_host // options.processes, options.processes
    return make_target(
        host, device, per_host=per_host, hosts=hosts, given=options.memory, machine=options, section=SECTION
    )


def _mesh_shape(job: Job, options: Options, world: int, target: Target) -> tuple[int, int, int]:
    """Return the sizes of data, fsdp and tensor."""
    rest, tensor = world // options.tensor, options.tensor
    fits_whole = fits_memory(target, estimate_memory(job, options, (rest, 1, tensor), 1)) is not False
    fsdp = options.fsdp or (1 if fits_whole or options.data else rest)
    data = options.data or max(1, rest // fsdp)
    if data * fsdp * tensor != world:
        fix = f"use sizes whose product is {world}, or set {SECTION}.devices; data = 0 uses what the others leave"
        what = f"{world} devices cannot be divided into data {data} × fsdp {fsdp} × tensor {tensor}"
        raise ConfigError(what, where=SECTION, fix=fix)
    if data * fsdp % options.processes:
        fix = f"make data × fsdp a multiple of {options.processes}, so that each process has rows of its own"
        what = f"{data * fsdp} shards of rows cannot be divided among {options.processes} processes"
        raise ConfigError(what, where=SECTION, fix=fix)
    return data, fsdp, tensor


def _embedding_rows(job: Job, device: str, tensor: int) -> int:
    """Return the rows of the token embedding: a multiple of its shards, of `pad_vocab`, and of a TPU's lanes."""
    padding = max(1, job.train.model.pad_vocab)
    unit, ids = math.lcm(tensor, padding, _LANES if device == "tpu" else 1), int(job.model["vocab_size"])
    return math.ceil(ids / unit) * unit
