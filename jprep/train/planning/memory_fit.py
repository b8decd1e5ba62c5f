"""Decide whether a plan fits the memory of its devices."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from jprep.train.backend import DeviceKind, Host, Plan, Target
from jprep.train.planning.machine import NO_MACHINE, MachineOptions, named_device

USABLE_SHARE = 0.85
"""The share of a device's memory that a plan may use; libraries need the rest."""

_GB = 1e9

_WORDS = {
    True: "it fits",
    False: f"it does not fit (a plan may use {USABLE_SHARE:.0%} of each)",
    None: "whether it fits is not known",
}


class MemoryFit(NamedTuple):
    """Whether a plan fits the devices that it is made for.

    Attributes:
        fits: None if unknown.
        text: the estimate, the available memory and the verdict.
    """

    fits: bool | None
    text: str


def make_target(
    host: Host,
    kind: DeviceKind,
    *,
    per_host: int,
    hosts: int = 1,
    given: float = 0.0,
    machine: MachineOptions = NO_MACHINE,
    section: str = "",
) -> Target:
    """Return the devices of this machine, or of one that options describe.

    Args:
        host: this machine.
        kind: `cpu`, `gpu` or `tpu`.
        per_host: devices of each host, or processes on a CPU, which share its memory.
        hosts: number of hosts, assumed to be like this one.
        given: GiB of each device according to an option, which replaces other sizes; 0 if not given.
        machine: the backend's options, which may name another machine.
        section: the section of these options, for messages.

    Raises:
        ConfigError: the named device is not known.
    """
    size, main = int(given * 2**30), int(machine.host_memory * 2**30) // max(1, per_host)
    each, count = main or host.memory // max(1, per_host), per_host * hosts
    if kind == "cpu":
        name = "the machine planned for" if size or main else "this machine"
        memory = size or each
        return Target(name=name, kind=kind, count=hosts, memory=memory, host_memory=memory, hosts=hosts, on_host=True)
    if named := named_device(machine, section):
        memory = size or named.memory
        found = Target(name=named.name, kind=kind, count=count, memory=memory, host_memory=main, hosts=hosts)
        return msgspec.structs.replace(found, elsewhere=True)
    size = size or (host.device_memory if kind == "gpu" else 0)
    name = host.devices[0] if host.devices and kind == "gpu" and not given else f"a {kind.upper()}"
    return Target(name=name, kind=kind, count=count, memory=size, host_memory=each, hosts=hosts)


def fits_memory(target: Target, memory: int, host_memory: int = 0) -> bool | None:
    """Return whether a target has enough memory; None if unknown.

    Args:
        target: the devices.
        memory: bytes needed on one of them.
        host_memory: bytes of main memory needed by the same process.
    """
    if target.on_host:
        return memory + host_memory <= USABLE_SHARE * target.memory if target.memory else None
    parts = [(memory, target.memory), (host_memory, target.host_memory)]
    known = [needed <= USABLE_SHARE * available for needed, available in parts if available]
    if not all(known):
        return False
    return True if all(available for needed, available in parts if needed) else None


def default_target(plan: Plan, host: Host) -> Target:
    """Return the target of a plan that names none: this machine, with its GPUs if it has some."""
    processes = max(1, plan.processes // plan.machines)
    return make_target(host, "gpu" if host.devices else "cpu", per_host=processes, hosts=plan.machines)


def judge_plan(plan: Plan, host: Host) -> MemoryFit:
    """Return whether a plan fits its target.

    Args:
        plan: from a backend.
        host: the machine that it was made on.
    """
    target = plan.target or default_target(plan, host)
    fits = fits_memory(target, plan.memory, plan.host_memory)
    needed = f"{plan.memory / _GB:,.2f} GB a process"
    if plan.host_memory:
        needed += f" and {plan.host_memory / _GB:,.2f} GB of its host's memory"
    return MemoryFit(fits, f"{needed}, estimated; {_available(target, plan.host_memory)}: {_WORDS[fits]}")


def _available(target: Target, host_memory: int) -> str:
    """Describe the memory of a target for each process."""
    device = f"{target.name} has {target.memory / _GB:,.1f} GB for each" if target.memory else ""
    device = device or f"the memory of {target.name} is not known"
    if not host_memory or target.on_host:
        return device
    host = f"{target.host_memory / _GB:,.1f} GB" if target.host_memory else "an unknown amount"
    return f"{device}, and its host {host}"
