"""The hosts of a run, as a scheduler, a file or an outer launcher names them."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from jprep.train.backend import Nodes, Placement, Starter

SECTION = "train.hosts"


class HostSet(NamedTuple):
    """The hosts of a run.

    Attributes:
        source: where they come from, for messages: `the Slurm job 12`.
        starter: the program that starts a launcher on each host.
        names: the hosts. With the starter `join`, the processes that an outer launcher started.
        slots: processes for each host; 0 if nothing says so.
        gpus: GPUs of each host; 0 if nothing says so.
        strict: whether `slots` is a limit.
        number: with the starter `join`, the number of this process among `names`; else 0.
        address: address of the first host; "" to find it there.
        sharing: with the starter `join`, how many of `names` share this machine.
    """

    source: str
    starter: Starter
    names: tuple[str, ...]
    slots: int = 0
    gpus: int = 0
    strict: bool = False
    number: int = 0
    address: str = ""
    sharing: int = 1

    @property
    def fixed(self) -> bool:
        """Whether a run needs all of the hosts, because jprep cannot start anything on a part of them."""
        return self.starter == "join"

    def without(self, lost: Collection[str]) -> HostSet:
        """Return the hosts that are left."""
        return self._replace(names=tuple(name for name in self.names if name not in lost))

    def nodes(self, count: int) -> Nodes:
        """Return the first hosts, for a planner."""
        return Nodes(count, self.slots, self.gpus, self.strict)

    def placement(self, count: int) -> Placement:
        """Return the first hosts, for a plan."""
        return Placement(self.starter, self.names[:count], self.address)
