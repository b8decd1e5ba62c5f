"""The number of processes on each host of a run; used by backends' planners."""

from __future__ import annotations

from jprep.errors import ConfigError
from jprep.train.backend import Host


def processes_per_host(requested: int, host: Host, section: str, *, on_gpus: bool) -> int:
    """Return the number of processes on each host.

    Args:
        requested: the backend's option `processes`; 0 uses the hostfile or the scheduler, else the GPUs.
        host: this machine, and the hosts of the run.
        section: the section of the options, for messages.
        on_gpus: whether the processes run on GPUs.

    Raises:
        ConfigError: more processes are requested than a host has slots.
    """
    nodes = host.nodes
    gpus = (nodes.gpus if nodes else 0) or len(host.devices)
    if nodes and nodes.strict and requested > (nodes.slots or requested):
        what = f"{requested} processes are requested, but each host has {nodes.slots} slots"
        raise ConfigError(what, where=f"{section}.processes", fix=f"processes = {nodes.slots} or fewer")
    if requested:
        return requested
    return (gpus if on_gpus and gpus else nodes.slots if nodes else 0) or 1


def host_count(host: Host) -> int:
    """Return the number of hosts of the run."""
    return host.nodes.count if host.nodes else 1


def refuse_hosts(host: Host, where: str, *, what: str, fix: str) -> None:
    """Refuse several hosts for a device that cannot use them.

    Args:
        host: this machine, and the hosts of the run.
        where: the option that chooses the device.
        what: what cannot use them.
        fix: what to do instead.

    Raises:
        ConfigError: the run has hosts.
    """
    if host.nodes:
        raise ConfigError(f"{what} does not support train.hosts", where=where, fix=fix)
