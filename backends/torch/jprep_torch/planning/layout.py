"""The layout of a job: processes, devices, sharding and micro-batch."""

from __future__ import annotations

from typing import Literal, NamedTuple

from jprep.train.backend import DeviceKind, Host, MicroBatchEstimate, Target
from jprep.train.hosts.processes import host_count, processes_per_host, refuse_hosts
from jprep.train.job.config import Job
from jprep.train.planning.host import tpu_count
from jprep.train.planning.machine import MachineOptions, check_machine, devices_per_host, plans_tpu
from jprep.train.planning.memory_fit import fits_memory, make_target
from jprep.train.planning.micro_batch import choose_micro_batch, rows_per_device
from jprep_torch.options import SECTION, Device, Options
from jprep_torch.planning import xla
from jprep_torch.planning.checks import check_options
from jprep_torch.planning.memory import estimate_memory


class Layout(NamedTuple):
    """The layout of a job.

    Attributes:
        device: `cpu`, `cuda`, `xla` or `tpu`.
        processes: processes on each host.
        hosts: number of hosts.
        placed: whether jprep starts the processes on each host, and not torchrun.
        devices: XLA devices of all hosts, among which one program divides rows; 1 on other devices.
        shard: whether the model is sharded.
        micro_batch: rows of each process that pass through the model at a time.
        accumulate: number of micro-batches for each update.
        memory: estimated bytes on one device.
        target: the devices that it is made for.
        smaller: smaller micro-batches.
    """

    device: Device
    processes: int
    hosts: int
    placed: bool
    devices: int
    shard: bool
    micro_batch: int
    accumulate: int
    memory: int
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]


class _DeviceCounts(NamedTuple):
    """How many processes and devices a job uses.

    Attributes:
        processes: processes on each host.
        hosts: number of hosts.
        world: processes that exchange gradients; an XLA program of several hosts counts as one.
        devices: XLA devices of all hosts, among which one program divides rows; 1 on other devices.
        devices_per_process: those of each process.
    """

    processes: int
    hosts: int
    world: int
    devices: int
    devices_per_process: int


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Choose devices, processes, sharding and the micro-batch of a job.

    Args:
        job: the job.
        options: the backend's options.
        host: the machine.

    Raises:
        ConfigError: the batch cannot be divided, an option is out of range, or options exclude each other.
    """
    device: Device = cuda_or_cpu(options, host) if options.device == "auto" else options.device
    check_options(job, options, device)
    check_machine(options, options.device, _device_kind(options, device), SECTION)
    counts = _device_counts(options, host, device)
    rows = rows_per_device(job.train.batch, counts.world * counts.devices, SECTION)
    target = _target(options, host, device, counts.processes * counts.devices_per_process, counts.hosts)
    shard = _choose_sharding(job, options, device, counts.world, target)
    shards = counts.world if shard else 1

    def estimate(number: int) -> int:
        return estimate_memory(job, options, device, number, shards)

    chosen = choose_micro_batch(rows, options.micro_batch, estimate, target, SECTION)
    return Layout(
        device=device,
        processes=counts.processes,
        hosts=counts.hosts,
        placed=host.nodes is not None,
        devices=counts.devices,
        shard=shard,
        micro_batch=chosen.rows * counts.devices_per_process,
        accumulate=chosen.accumulate,
        memory=chosen.memory,
        target=target,
        smaller=chosen.smaller,
    )


def cuda_or_cpu(options: MachineOptions, host: Host) -> Literal["cuda", "cpu"]:
    """Return the device that `auto` means: a named GPU or GPUs of the machine, else its CPU."""
    return "cuda" if host.devices or options.gpu else "cpu"


def _device_counts(options: Options, host: Host, device: Device) -> _DeviceCounts:
    if device == "xla":
        fix = "set hosts of the backend torch for a TPU slice"
        refuse_hosts(host, f"{SECTION}.device", what=f"device {device}", fix=fix)
        devices = xla.xla_device_count(options.devices, options.hosts, options, SECTION)
        return _DeviceCounts(1, options.hosts, world=1, devices=devices, devices_per_process=devices // options.hosts)
    hosts, processes = host_count(host), _processes(options, host, device)
    return _DeviceCounts(processes, hosts, world=processes * hosts, devices=1, devices_per_process=1)


def _processes(options: Options, host: Host, device: Device) -> int:
    """Return the number of processes on each host."""
    if device == "tpu":
        refuse_hosts(host, f"{SECTION}.device", what=f"device {device}", fix="use the backend flax")
        return options.processes or devices_per_host(options, 1, SECTION) or tpu_count() or 1
    return processes_per_host(options.processes, host, SECTION, on_gpus=device == "cuda")


def _choose_sharding(job: Job, options: Options, device: Device, processes: int, target: Target) -> bool:
    """Shard among several devices if the option says so, or if the whole model does not fit one of them."""
    if processes == 1:
        return False
    if options.shard != "auto":
        return options.shard == "yes"
    if device == "tpu":
        return False
    return fits_memory(target, estimate_memory(job, options, device, 1, 1)) is False


def _target(options: Options, host: Host, device: Device, per_host: int, hosts: int) -> Target:
    """Return the devices to plan for. Without TPUs the CPU emulates XLA devices, which share its memory."""
    kind = _device_kind(options, device)
    return make_target(
        host, kind, per_host=per_host, hosts=hosts, given=options.memory, machine=options, section=SECTION
    )


def _device_kind(options: Options, device: Device) -> DeviceKind:
    on_tpu = device == "tpu" or (device == "xla" and plans_tpu(options))
    return "tpu" if on_tpu else "gpu" if device == "cuda" else "cpu"
