"""The layout of a job: processes, devices and micro-batch."""

from __future__ import annotations

from typing import NamedTuple

from jprep.train.backend import DeviceKind, Host, MicroBatchEstimate, Target
from jprep.train.job.config import Job
from jprep.train.planning.machine import check_machine, plans_tpu
from jprep.train.planning.memory_fit import make_target
from jprep.train.planning.micro_batch import choose_micro_batch, rows_per_device
from jprep_fairseq_xla.options import SECTION, Device, Options
from jprep_fairseq_xla.planning.checks import check_options, resolve_device
from jprep_fairseq_xla.planning.memory import estimate_memory
from jprep_torch.planning.xla import xla_device_count


class Layout(NamedTuple):
    """The layout of a job.

    Attributes:
        device: `cpu`, `cuda` or `xla`.
        processes: processes on GPUs or on a CPU; 1 for XLA.
        hosts: number of hosts, with a process on each.
        devices: number of devices of all hosts.
        micro_batch: rows of each process that go through the model at a time.
        accumulate: number of micro-batches of an update.
        memory: bytes on one device, estimated.
        target: the devices that the layout is for.
        smaller: smaller micro-batches.
    """

    device: Device
    processes: int
    hosts: int
    devices: int
    micro_batch: int
    accumulate: int
    memory: int
    target: Target
    smaller: tuple[MicroBatchEstimate, ...]


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Choose a layout.

    Raises:
        ConfigError: the batch cannot be divided, or an option is out of its range.
    """
    device = resolve_device(options)
    check_options(options, device)
    check_machine(options, options.device, _device_kind(options, device), SECTION)
    devices = xla_device_count(options.devices, options.hosts, options, SECTION) if device == "xla" else 1
    processes = options.processes or (len(host.devices) if device == "cuda" else 1) or 1
    parts = processes * devices
    target = _target(options, host, device, parts)

    def estimate(rows: int) -> int:
        return estimate_memory(job, rows)

    rows = rows_per_device(job.train.batch, parts, SECTION)
    chosen = choose_micro_batch(rows, options.micro_batch, estimate, target, SECTION)
    return Layout(
        device=device,
        processes=processes,
        hosts=options.hosts,
        devices=devices,
        micro_batch=chosen.rows * devices // options.hosts,
        accumulate=chosen.accumulate,
        memory=chosen.memory,
        target=target,
        smaller=chosen.smaller,
    )


def _target(options: Options, host: Host, device: Device, parts: int) -> Target:
    """Return the devices to plan for; without TPUs, XLA's devices are the CPU and share its memory."""
    per_host, hosts, kind = parts // options.hosts, options.hosts, _device_kind(options, device)
    return make_target(
        host, kind, per_host=per_host, hosts=hosts, given=options.memory, machine=options, section=SECTION
    )


def _device_kind(options: Options, device: Device) -> DeviceKind:
    return "gpu" if device == "cuda" else "tpu" if device == "xla" and plans_tpu(options) else "cpu"
