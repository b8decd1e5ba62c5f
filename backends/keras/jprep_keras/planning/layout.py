"""The layout of a job: the engine, the devices and the micro-batch."""

from __future__ import annotations

import msgspec

from jprep.train.backend import Host, MicroBatchEstimate, Target
from jprep.train.job.config import Job
from jprep.train.planning.host import tpu_count
from jprep.train.planning.machine import check_machine, detect_device, devices_per_host
from jprep.train.planning.memory_fit import make_target
from jprep.train.planning.micro_batch import choose_micro_batch, rows_per_device
from jprep_keras.options import SECTION, Device, Options
from jprep_keras.planning.checks import check_options
from jprep_keras.planning.memory import estimate_memory


class Layout(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The layout of a job.

    Attributes:
        engine: `tensorflow` or `jax`.
        device: `cpu`, `gpu` or `tpu`.
        devices: number of devices.
        tpu: name or address of the TPU, for TensorFlow.
        micro_batch: rows that go through the model at a time, on all devices together.
        accumulate: number of micro-batches of an update.
        memory: bytes on one device, estimated.
        target: the devices that the layout is for.
        smaller: smaller micro-batches.
    """

    engine: str
    device: str
    devices: int
    tpu: str = "local"
    micro_batch: int
    accumulate: int
    memory: int
    target: Target | None = None
    smaller: tuple[MicroBatchEstimate, ...] = ()


def choose_layout(job: Job, options: Options, host: Host) -> Layout:
    """Choose a layout.

    Raises:
        ConfigError: the batch cannot be divided, an option is out of its range, or KerasHub has no such model.
    """
    check_options(job, options)
    device: Device = detect_device(options, host) if options.device == "auto" else options.device
    check_machine(options, options.device, device, SECTION)
    tpus = devices_per_host(options, 1, SECTION) or tpu_count()
    devices = options.devices or {"gpu": len(host.devices), "tpu": tpus, "cpu": 1}[device] or 1
    target = make_target(host, device, per_host=devices, given=options.memory, machine=options, section=SECTION)
    rows = rows_per_device(job.train.batch, devices, SECTION)
    chosen = choose_micro_batch(rows, options.micro_batch, lambda rows: estimate_memory(job, rows), target, SECTION)
    return Layout(
        engine=options.engine,
        device=device,
        devices=devices,
        tpu=options.tpu,
        micro_batch=chosen.rows * devices,
        accumulate=chosen.accumulate,
        memory=chosen.memory,
        target=target,
        smaller=chosen.smaller,
    )
