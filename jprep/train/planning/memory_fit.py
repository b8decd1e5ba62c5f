"""Whether a plan fits its devices, and how many rows go through a model at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, NamedTuple

from jprep.errors import ConfigError
from jprep.train.backend import Host, MicroBatchEstimate, Plan, Target

USABLE_SHARE = 0.85
"""Of a device's memory that a plan fills; the rest is the libraries' own."""

_MOST = 1 << 14  # rows at a time that are thought of
_TOLD = 8  # smaller micro-batches that a plan names
_GB = 1e9


DeviceKind = Literal["cpu", "gpu", "tpu"]


class MemoryFit(NamedTuple):
    """Whether a plan fits the devices that it is made for.

    Attributes:
        fits: None where it is not known.
        text: the estimate, what there is, and the verdict.
    """

    fits: bool | None
    text: str


def micro_batch_sizes(own: int, most: int = _MOST) -> Iterator[int]:
    """Numbers of rows that divide a device's evenly, the largest first.

    Args:
        own: the device's rows of a batch.
        most: that are thought of.
    """
    return (rows for rows in range(min(own, most, _MOST), 0, -1) if own % rows == 0)


def choose_micro_batch(own: int, asked: int, fits: Callable[[int], bool], where: str) -> int:
    """As many as are asked for, else as many as fit, and at least one.

    Args:
        own: the device's rows of a batch.
        asked: 0 leaves it to this.
        fits: whether so many fit its memory.
        where: the section of the backend's options.

    Raises:
        ConfigError: the device's rows cannot be divided as it is asked.
    """
    check_micro_batch(own, asked, where)
    return asked or next(filter(fits, micro_batch_sizes(own)), 1)


def check_micro_batch(own: int, asked: int, where: str) -> None:
    """See that a device's rows can be taken so many at a time.

    Raises:
        ConfigError: they cannot.
    """
    if asked and own % asked:
        fix = f"take a divisor of {own}, the rows of each device or process"
        raise ConfigError(f"{own} rows cannot be taken {asked} at a time", where=f"{where}.rows", fix=fix)


def smaller_micro_batches(own: int, rows: int, estimate: Callable[[int], int]) -> tuple[MicroBatchEstimate, ...]:
    """Return the next smaller micro-batches.

    Args:
        own: the device's rows of a batch.
        rows: those that go through the model at a time.
        estimate: bytes on one device, for a number of rows.
    """
    numbers = list(micro_batch_sizes(own, rows - 1))
    chosen = numbers if len(numbers) <= _TOLD else [*numbers[: _TOLD - 1], numbers[-1]]
    return tuple(MicroBatchEstimate(number, estimate(number)) for number in chosen)


def make_target(host: Host, kind: DeviceKind, *, per_host: int, hosts: int = 1, given: float = 0.0) -> Target:
    """Return the devices of the machine that jprep plans on, or of one that an option describes.

    Args:
        host: the machine.
        kind: what computes.
        per_host: devices, or processes on a CPU, of each host: they share its memory.
        hosts: how many hosts, taken to be like this one.
        given: GiB of each device, where an option says it: then no memory of this machine counts for the device.
    """
    each, size = host.memory // max(1, per_host), int(given * 2**30)
    count = {"cpu": hosts}.get(kind, per_host * hosts)
    if kind == "cpu":
        name = "the machine planned for" if given else "this machine"
        return Target(name=name, kind=kind, count=count, memory=size or each, host_memory=size or each, on_host=True)
    found = host.device_memory if kind == "gpu" else 0
    name = host.devices[0] if host.devices and kind == "gpu" and not given else f"a {kind.upper()}"
    return Target(name=name, kind=kind, count=count, memory=size or found, host_memory=each)


def fits_memory(target: Target, memory: int, host_memory: int = 0) -> bool | None:
    """Return whether a target has so much memory; None where that is not known.

    Args:
        target: the devices.
        memory: bytes on one of them.
        host_memory: bytes of its host for the same process.
    """
    if target.on_host:
        return memory + host_memory <= USABLE_SHARE * target.memory if target.memory else None
    parts = [(memory, target.memory), (host_memory, target.host_memory)]
    known = [asked <= USABLE_SHARE * there for asked, there in parts if there]
    if not all(known):
        return False
    return True if all(there for asked, there in parts if asked) else None


def default_target(plan: Plan, host: Host) -> Target:
    """Return the target of a backend's plan that names none: this machine, its GPUs where it has some."""
    processes = max(1, plan.processes // plan.machines)
    return make_target(host, "gpu" if host.devices else "cpu", per_host=processes, hosts=plan.machines)


def judge_plan(plan: Plan, host: Host) -> MemoryFit:
    """Return the one verdict on a plan.

    Args:
        plan: from a backend.
        host: the machine that it was made on.
    """
    target = plan.target or default_target(plan, host)
    fits = fits_memory(target, plan.memory, plan.host_memory)
    asked = f"{plan.memory / _GB:,.2f} GB a process"
    if plan.host_memory:
        asked += f" and {plan.host_memory / _GB:,.2f} GB of its host's memory"
    return MemoryFit(fits, f"{asked}, estimated; {_there(target, plan.host_memory)}: {_WORDS[fits]}")


def _there(target: Target, host_memory: int) -> str:
    """Say what a target has for each process."""
    device = f"{target.name} has {target.memory / _GB:,.1f} GB for each" if target.memory else ""
    device = device or f"the memory of {target.name} is not known"
    if not host_memory or target.on_host:
        return device
    there = f"{target.host_memory / _GB:,.1f} GB" if target.host_memory else "an unknown amount"
    return f"{device}, and its host {there}"


_WORDS = {
    True: "it fits",
    False: "it does not fit",
    None: "whether it fits is not known",
}
