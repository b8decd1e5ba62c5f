"""How a global batch and a model lie on a mesh of devices."""

from __future__ import annotations

import math

import msgspec

from jprep.errors import ConfigError
from jprep.train.backend import Host, MicroBatchEstimate, Target
from jprep.train.job.config import Job
from jprep.train.models import FAMILIES, training_memory
from jprep.train.planning.host import tpu_count
from jprep.train.planning.memory_fit import choose_micro_batch, fits_memory, make_target, smaller_micro_batches
from jprep_flax.options import SECTION, Device, Options

MODEL_TYPES = ("gpt2", "llama", "bert", "roberta", "electra")
"""What there is in flax.nnx."""

_LANES = 128  # numbers that a TPU's matrix unit takes side by side


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Where everything lies.

    Attributes:
        device: `cpu`, `gpu` or `tpu`.
        devices: of each process.
        processes: how many.
        mesh: the sizes of the axes data, fsdp and tensor.
        rows: of a process that go through the model at a time, on all of its devices together.
        accumulate: how many times.
        coordinator: address and port of the first of several machines; "" where there is one.
        vocabulary: rows of the tables of ids, `vocab_size` or a few more.
        memory: bytes on one device, estimated.
        target: the devices that it is for.
        smaller: smaller micro-batches.
    """

    device: str
    devices: int
    processes: int
    mesh: tuple[int, int, int]
    rows: int
    accumulate: int
    coordinator: str
    vocabulary: int
    memory: int
    target: Target | None = None
    smaller: tuple[MicroBatchEstimate, ...] = ()

    @property
    def world(self) -> int:
        """All devices."""
        return self.devices * self.processes


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Lay a job out.

    Raises:
        ConfigError: an axis cannot be divided, an option is out of its range, or there is no such model.
    """
    _check(job, options)
    found: Device = "gpu" if host.devices else "tpu" if tpu_count() else "cpu"
    device = found if options.device == "auto" else options.device
    devices = options.devices or _devices(device, host, 1 if options.coordinator else options.processes)
    target = _target(options, host, device, devices)
    mesh = _mesh(job, options, devices * options.processes, target)
    _check_model(job, mesh)
    shards = mesh[0] * mesh[1]
    own = _own_rows(job, options, shards)
    rows = _fitting(job, options, mesh, own, target)
    return Layout(
        device=device,
        devices=devices,
        processes=options.processes,
        mesh=mesh,
        rows=rows * shards // options.processes,
        accumulate=own // rows,
        coordinator=options.coordinator,
        vocabulary=_vocabulary(job, device, mesh[2]),
        memory=_memory(job, options, mesh, rows),
        target=target,
        smaller=smaller_micro_batches(own, rows, lambda fewer: _memory(job, options, mesh, fewer)),
    )


def _check(job: Job, options: Options) -> None:
    numbers = ("devices", "data", "fsdp", "rows", "memory")
    if min(getattr(options, name) for name in numbers) < 0 or min(options.tensor, options.processes) < 1:
        fix = "0 lets jprep choose, but for tensor and processes, which are 1 or more"
        raise ConfigError(f"{', '.join(numbers)} are 0 or more", where=SECTION, fix=fix)
    if options.coordinator and (options.processes < 2 or not options.coordinator.rpartition(":")[2].isdecimal()):
        fix = 'e.g. processes = 4, coordinator = "10.0.0.1:9876"'
        what = "a coordinator is an address and a port, of two processes or more"
        raise ConfigError(what, where=f"{SECTION}.coordinator", fix=fix)
    kind = job.model["model_type"]
    if kind not in MODEL_TYPES:
        fix = f"take one of {', '.join(MODEL_TYPES)}, or another backend"
        raise ConfigError(f"the backend flax has no model {kind!r}", where="train.model.config.model_type", fix=fix)


def _devices(device: str, host: Host, processes: int) -> int:
    """Of each process."""
    found = {"gpu": len(host.devices), "tpu": tpu_count(), "cpu": processes}[device] or 1
    if found % processes:
        fix = f"processes = 1, which drives all of them, or set {SECTION}.devices"
        raise ConfigError(f"{found} devices cannot be divided among {processes} processes", where=SECTION, fix=fix)
    return found // processes


def _target(options: Options, host: Host, device: Device, devices: int) -> Target:
    """The devices that a plan is for; each process is on a machine of its own where there is a coordinator."""
    per_host, hosts = (devices, options.processes) if options.coordinator else (devices * options.processes, 1)
    return make_target(host, device, per_host=per_host, hosts=hosts, given=options.memory)


def _mesh(job: Job, options: Options, world: int, target: Target) -> tuple[int, int, int]:
    """The sizes of data, fsdp and tensor."""
    rest, tensor = world // options.tensor, options.tensor
    whole = fits_memory(target, _memory(job, options, (rest, 1, tensor), 1)) is not False
    fsdp = options.fsdp or (1 if whole or options.data else rest)
    data = options.data or max(1, rest // fsdp)
    if data * fsdp * tensor != world:
        fix = f"sizes whose product is {world}, or {SECTION}.devices; data = 0 takes what the others leave"
        what = f"{world} devices cannot be divided into data {data} × fsdp {fsdp} × tensor {tensor}"
        raise ConfigError(what, where=SECTION, fix=fix)
    if data * fsdp % options.processes:
        fix = f"data × fsdp a multiple of {options.processes}, so that each process has rows of its own"
        what = f"{data * fsdp} shares of rows cannot be divided among {options.processes} processes"
        raise ConfigError(what, where=SECTION, fix=fix)
    return data, fsdp, tensor


def _check_model(job: Job, mesh: tuple[int, int, int]) -> None:
    """Heads and inner widths go along tensor, the layers' width along fsdp."""
    model, (_, fsdp, tensor) = job.model, mesh
    family = FAMILIES[model["model_type"]]
    inner = (family.heads, "num_key_value_heads", "n_inner", "intermediate_size")
    for axis, size, keys in (("tensor", tensor, inner), ("fsdp", fsdp, (family.width, "embedding_size"))):
        for key in keys:
            if (number := model.get(key, 0)) % size:
                fix = f"{SECTION}.{axis} = {math.gcd(number, size)}, or a {key} that is a multiple of {size}"
                raise ConfigError(f"{key} is {number} and cannot be divided by {axis} {size}", where=SECTION, fix=fix)


def _own_rows(job: Job, options: Options, shards: int) -> int:
    """Rows of a global batch for each share of it."""
    batch = job.train.batch
    if batch % shards:
        fix = f"take a multiple of {shards} as train.batch, or fewer devices, or a larger {SECTION}.tensor"
        raise ConfigError(f"a batch of {batch} rows cannot be divided into {shards} shares", where=SECTION, fix=fix)
    return batch // shards


def _fitting(job: Job, options: Options, mesh: tuple[int, int, int], own: int, target: Target) -> int:
    def fits(rows: int) -> bool:
        return fits_memory(target, _memory(job, options, mesh, rows)) is not False

    return choose_micro_batch(own, options.rows, fits, SECTION)


def _vocabulary(job: Job, device: str, tensor: int) -> int:
    """Rows that divide by what they are divided among, and that fill a TPU's lanes."""
    unit, ids = math.lcm(tensor, _LANES if device == "tpu" else 1), int(job.model["vocab_size"])
    return math.ceil(ids / unit) * unit


def _memory(job: Job, options: Options, mesh: tuple[int, int, int], rows: int) -> int:
    """Bytes on one device; attention's matrices are kept."""
    section, model, (_, fsdp, tensor) = job.train, job.model, mesh
    length = section.labelled.length if section.data else section.length

    def estimate(rows: int) -> int:
        return training_memory(model, section.task, rows, length, section.precision, attention=True, lean=True)

    state = estimate(0)
    kept = (estimate(rows) - state) // tensor
    if options.recompute:  # one layer's share, and each layer's input
        kept //= 3
    return state // (fsdp * tensor) + kept
