"""Plan a run on its hosts: on all of them, or on as many as its batch can be divided among."""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from jprep.errors import ConfigError
from jprep.plurals import counted
from jprep.train.backend import Backend, Host, Plan
from jprep.train.hosts.host_set import HostSet
from jprep.train.hosts.watch import seconds_until_lost
from jprep.train.job.config import Job

_SHOWN = 4  # names of hosts in a message

Replan = Callable[[Collection[str]], Plan | None]
"""Returns the plan without some hosts; None if none is left that a run could use."""


def plan_on_hosts(backend: Backend, job: Job, run: Path, host: Host, hosts: HostSet) -> Plan:
    """Plan a job on hosts.

    Args:
        backend: the planner.
        job: the job.
        run: the run directory.
        host: this machine.
        hosts: the hosts. If the batch cannot be divided among all of them, fewer are used, unless they are fixed.

    Raises:
        ConfigError: the job cannot be run on any number of them; the error is that of all hosts. Or the limit of
            `JPREP_NODE_SECONDS` is not a number.
    """
    seconds_until_lost()  # a wrong value is refused before anything is written
    host = msgspec.structs.replace(host, cores=max(1, host.cores // hosts.sharing))
    first: ConfigError | None = None
    for count in range(len(hosts.names), 0, -1):
        try:
            plan = backend.plan(job, run, msgspec.structs.replace(host, nodes=hosts.nodes(count)))
        except ConfigError as error:
            first = first or error
        else:
            notes = (*plan.notes, _describe(hosts, count, plan))
            return msgspec.structs.replace(plan, placement=hosts.placement(count), notes=notes)
        if hosts.fixed:
            break
    raise first or ConfigError("there is no host", where=hosts.source)


def make_replan(backend: Backend, job: Job, run: Path, host: Host, hosts: HostSet) -> Replan:
    """Return the function that plans the same job without lost hosts; the arguments are those of `plan_on_hosts`."""

    def replan(lost: Collection[str]) -> Plan | None:
        left = hosts.without(lost)
        if not left.names or (hosts.fixed and lost):
            return None
        try:
            return plan_on_hosts(backend, job, run, host, left)
        except ConfigError:  # one host is not enough for this job
            return None

    return replan


def _describe(hosts: HostSet, count: int, plan: Plan) -> str:
    names = ", ".join(hosts.names[: min(count, _SHOWN)]) + (" …" if count > _SHOWN else "")
    each = plan.processes // count
    text = f"{counted(count, 'host')} ({names}) of {hosts.source}, {counted(each, 'process', 'processes')} on each"
    left = len(hosts.names) - count
    return text + (f"; {left} more cannot share the batch" if left else "")
