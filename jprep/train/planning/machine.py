"""The machine that a plan is made for: this one, or another one that a backend's options name."""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from jprep.errors import ConfigError
from jprep.train.backend import DeviceKind, Host
from jprep.train.models.flops import TPUS
from jprep.train.planning.gpu_models import gpu_memory
from jprep.train.planning.host import accelerators, tpu_count

_GIB = 1 << 30
_LITE = re.compile(r"(?<=v5)lite(pod)?\b")


class MachineOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Options of a backend for GPUs.

    Attributes:
        gpu: GPU to plan for if it is not this machine's: a name such as `A100-40GB`, or GiB such as `40`.
        host_memory: GiB of main memory of each host to plan for; 0 is this machine's, or unknown if another machine is
            named.
    """

    gpu: str | float = ""
    host_memory: float = 0.0


class TpuMachineOptions(MachineOptions, frozen=True, kw_only=True):
    """Options of a backend for GPUs and TPUs.

    Attributes:
        tpu_type: TPU to plan for if this machine has none, as Google Cloud names it: `v3`, or with its size `v3-8`,
            `v4-32`, `v5e-8`.
    """

    tpu_type: str = ""


class NamedDevice(NamedTuple):
    """A device that the options name.

    Attributes:
        name: for messages and for `jprep.train.models.flops.peak_flops`.
        kind: `gpu` or `tpu`.
        memory: bytes.
        devices: devices of all hosts; 0 if the name does not say.
    """

    name: str
    kind: DeviceKind
    memory: int
    devices: int = 0


NO_MACHINE = MachineOptions()


def named_device(options: MachineOptions, section: str) -> NamedDevice | None:
    """Return the device that the options name; None if they name none.

    Args:
        options: the backend's options.
        section: their section of the recipe, for messages.

    Raises:
        ConfigError: the device is not known, or both a GPU and a TPU are named.
    """
    tpu_type = _tpu_type(options)
    if options.gpu and tpu_type:
        raise ConfigError("both a GPU and a TPU are named", where=f"{section}.gpu", fix="remove gpu or tpu_type")
    if options.gpu:
        name = options.gpu if isinstance(options.gpu, str) else f"{options.gpu:g}"
        return NamedDevice(name, "gpu", gpu_memory(name, section))
    return _tpu(tpu_type, section) if tpu_type else None


def check_machine(options: MachineOptions, device: str, kind: DeviceKind, section: str) -> None:
    """Check that the named device is of the kind that the options use.

    Args:
        options: the backend's options.
        device: the option `device`.
        kind: the kind of device that it means.
        section: the section of the options.

    Raises:
        ConfigError: the device is not known, is of another kind, or the memory of the host is negative.
    """
    if options.host_memory < 0:
        what = f"host_memory is {options.host_memory:g}, and must be 0 or more"
        raise ConfigError(what, where=f"{section}.host_memory", fix="use 0 for this machine's")
    named = named_device(options, section)
    if named and named.kind != kind:
        key = "gpu" if named.kind == "gpu" else "tpu_type"
        what = f"{key} = {named.name!r} has no effect on device {device}"
        raise ConfigError(what, where=f"{section}.{key}", fix=f"set {section}.device for it, or leave {key} out")


def detect_device(options: MachineOptions, host: Host) -> DeviceKind:
    """Return the kind of device to use: the named one, else GPUs of this machine, its TPUs, or its CPU."""
    if options.gpu:
        return "gpu"
    if _tpu_type(options):
        return "tpu"
    return "gpu" if host.devices else "tpu" if tpu_count() else "cpu"


def expected_device(device: str, options: MachineOptions, found: str) -> str:
    """Return the kind of device that the environment of a backend should have.

    Args:
        device: the option `device`; `auto` is that of the named machine, or a GPU of this one.
        options: the backend's options.
        found: the device that `auto` is if neither names another.
    """
    if device != "auto":
        return device
    if _tpu_type(options):
        return "tpu"
    return "gpu" if options.gpu or accelerators() else found


def plans_tpu(options: MachineOptions) -> bool:
    """Return whether a plan that may use TPUs gets some: named ones, or this machine's."""
    return bool(_tpu_type(options)) or tpu_count() > 0


def devices_per_host(options: MachineOptions, hosts: int, section: str) -> int:
    """Return the devices of each host according to the size of the named TPU; 0 if no size is named.

    Args:
        options: the backend's options.
        hosts: number of hosts.
        section: the section of the options.

    Raises:
        ConfigError: the devices cannot be divided among the hosts, or the TPU is not known.
    """
    named = named_device(options, section)
    if not named or not named.devices:
        return 0
    if named.devices % max(1, hosts):
        what = f"the {named.devices} devices of tpu_type cannot be divided among {hosts} hosts"
        raise ConfigError(what, where=f"{section}.tpu_type", fix="give the number of hosts of this TPU type")
    return named.devices // max(1, hosts)


def planned_elsewhere(options: MachineOptions, memory: float = 0.0) -> bool:
    """Return whether options describe another machine.

    Args:
        options: the backend's options.
        memory: the option `memory`, which describes a device that this machine may lack.
    """
    named = bool(options.gpu or _tpu_type(options))
    return named or (bool(memory) and not (accelerators() or tpu_count()))


def _tpu_type(options: MachineOptions) -> str:
    return options.tpu_type if isinstance(options, TpuMachineOptions) else ""


def _tpu(name: str, section: str) -> NamedDevice:
    """Return the TPU of a type such as `v3-8`."""
    plain = _LITE.sub("e", name.lower().removeprefix("tpu").strip(" -"))
    version, _, size = plain.partition("-")
    tpu = TPUS.get(version)
    if tpu is None or (size and not size.isdecimal()) or (tpu and size and int(size) % tpu.cores):
        fix = f"one of {', '.join(TPUS)}, with or without a size: v3-8"
        raise ConfigError(f"there is no TPU type {name!r}", where=f"{section}.tpu_type", fix=fix)
    devices = int(size) * tpu.devices // tpu.cores if size else 0
    return NamedDevice(f"TPU {version}", "tpu", tpu.gib * _GIB // tpu.devices, devices)
