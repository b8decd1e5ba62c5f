"""The devices, and where arrays lie on them. Imported only where JAX is."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import numpy.typing as npt
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from jprep.errors import MachineError
from jprep_flax.options import SECTION
from jprep_flax.planning.layout import Layout
from jprep_flax.worker.sharding import AXES, BATCH_AXES, FSDP, TENSOR

WEIGHT_AXES: Mapping[str | None, str] = {"embed": FSDP, "heads": TENSOR, "mlp": TENSOR, "vocab": TENSOR}
"""The name of a weight's axis → the mesh's axis that it is divided along; others are whole everywhere."""


class DistributedContext:
    """The mesh, and this process's part in it.

    Args:
        layout: the plan's.
        rank: this process's number.

    Attributes:
        mesh: all devices.
        rank: this process's number.
        world: how many processes there are.
    """

    def __init__(self, layout: Layout, rank: int = 0) -> None:
        kinds = (jax.sharding.AxisType.Auto,) * len(AXES)
        # Processes have their devices side by side, so each has rows of its own.
        devices = sorted(jax.devices(), key=lambda one: (one.process_index, one.id))
        self.mesh = Mesh(np.array(devices).reshape(layout.mesh), AXES, axis_types=kinds)
        self._gather = jax.jit(lambda one: one, out_shardings=self.sharding())  # one function: compiled once a shape
        self.rank, self.world = rank, layout.processes

    def sharding(self, *axes: Any) -> NamedSharding:
        """How an array is divided whose axes lie along these of the mesh; None is whole, and so are further ones."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def of_weight(self, variable: Any) -> NamedSharding:
        """How a weight is divided: what its axes are called says it."""
        return self.sharding(*(WEIGHT_AXES.get(name) for name in variable.get_metadata("out_sharding")))

    def put(self, array: npt.NDArray[Any], variable: Any) -> jax.Array:
        """Divide an array that every process has whole as a weight is; each device is given its part only."""
        sharding = self.of_weight(variable)
        return jax.make_array_from_callback(array.shape, sharding, lambda part: np.array(array[part]))

    def rows(self, own: npt.NDArray[Any]) -> jax.Array:
        """This process's rows, (times, rows, …), with those of the others."""
        times, rows, *rest = own.shape
        shape = (times, rows * self.world, *rest)
        return jax.make_array_from_process_local_data(self.sharding(None, BATCH_AXES), own, shape)

    def own(self, rows: jax.Array) -> npt.NDArray[Any]:
        """The same way back: (times, rows, …) of this process."""
        parts = {shard.index[1].start or 0: shard.data for shard in rows.addressable_shards}
        return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)], axis=1)

    def gathered(self, part: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """All processes' arrays of one shape, (world, …)."""
        if self.world == 1:
            return part[None]
        words = multihost_utils.process_allgather(part.view(np.uint32))  # JAX would make them fp32
        return np.asarray(words).view(np.float64)

    def whole(self, array: jax.Array) -> npt.NDArray[Any]:
        """A copy in this process's memory. Each process asks for it."""
        if self.world > 1:
            array = self._gather(array)
        return np.array(array)


@contextlib.contextmanager
def join_processes(
    layout: Layout, *, rank: int, coordinator: str, exact: bool, deterministic: bool, patience: float
) -> Iterator[DistributedContext]:
    """Take the devices, with the other processes that a launcher has started, and let go of them at a good end.

    Args:
        layout: the plan's.
        rank: this process's number.
        coordinator: the address and port that the first process listens at.
        exact: whether products of fp32 are fp32, which accelerators shorten otherwise.
        deterministic: whether results may not depend on the order that a GPU's threads come in.
        patience: seconds to wait for the others: the first one may be hashing a large checkpoint.

    Raises:
        MachineError: there are no such devices.
    """
    if layout.device == "cpu":
        jax.config.update("jax_num_cpu_devices", layout.devices)
    if layout.device == "gpu" and deterministic:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
    jax.config.update("jax_default_matmul_precision", "highest" if exact else None)
    if layout.processes > 1:
        asked = signal.getsignal(signal.SIGTERM)
        first = 0 if layout.coordinator else rank * layout.devices  # of those on this machine
        own = range(first, first + layout.devices) if layout.device == "gpu" else None
        jax.distributed.initialize(
            coordinator, layout.processes, rank, own and list(own), initialization_timeout=int(patience)
        )
        signal.signal(signal.SIGTERM, asked)  # JAX takes the signal for its own, and the session would not hear it
    _check(layout)
    yield DistributedContext(layout, rank)
    if layout.processes > 1:  # not after an error: this waits for the others, and they would wait for this one
        jax.distributed.shutdown()


def _check(layout: Layout) -> None:
    """See that there are the devices that were planned with."""
    try:
        found = jax.local_device_count()
    except (RuntimeError, AssertionError) as error:  # the latter where JAX is built for CPUs only
        fix = f'{SECTION}.device = "cpu", or a JAX that is built for it: `jprep doctor` says what is there'
        what = f"JAX finds no {layout.device.upper()}" + (f": {error}" if str(error) else "")
        raise MachineError(what, where=SECTION, fix=fix) from error
    if found != layout.devices:
        what = f"JAX finds {found} devices of each process, and the plan has {layout.devices}"
        raise MachineError(what, where=SECTION, fix=f"{SECTION}.devices = {found}")
