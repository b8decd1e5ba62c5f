"""The mesh of devices, how arrays are placed on it, and how processes join."""

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
from jprep_flax.models.sharding import AXES, BATCH_AXES, FSDP, TENSOR
from jprep_flax.models.stored_array import StoredArray
from jprep_flax.options import SECTION
from jprep_flax.planning.layout import Layout

WEIGHT_AXES: Mapping[str | None, str] = {"embed": FSDP, "heads": TENSOR, "mlp": TENSOR, "vocab": TENSOR}
"""Name of a weight's axis → axis of the mesh along which it is sharded; other axes are replicated."""


class DistributedContext:
    """The mesh, and this process's part in it.

    Args:
        layout: the layout of the plan.
        rank: number of this process.

    Attributes:
        mesh: all devices.
        rank: number of this process.
        world: number of processes.
    """

    def __init__(self, layout: Layout, rank: int = 0) -> None:
        types = (jax.sharding.AxisType.Auto,) * len(AXES)
        # The devices of a process are adjacent, so that each process has rows of its own.
        devices = sorted(jax.devices(), key=lambda device: (device.process_index, device.id))
        self.mesh = Mesh(np.array(devices).reshape(layout.mesh), AXES, axis_types=types)
        self.rank, self.world = rank, layout.processes

    def sharding(self, *axes: Any) -> NamedSharding:
        """Return the sharding of an array whose axes lie along these of the mesh; None and further ones are whole."""
        return NamedSharding(self.mesh, PartitionSpec(*axes))

    def weight_sharding(self, variable: Any) -> NamedSharding:
        """Return the sharding of a weight, from the names of its axes."""
        axes = variable.get_metadata().get("out_sharding") or ()  # a user's head has none
        return self.sharding(*(WEIGHT_AXES.get(name) for name in axes))

    def put(self, array: StoredArray, variable: Any) -> jax.Array:
        """Shard an array as a weight is; for each device its part only is read."""
        return jax.make_array_from_callback(array.shape, self.weight_sharding(variable), array.part)

    def shard_rows(self, rows: npt.NDArray[Any]) -> jax.Array:
        """Join this process's rows, (micro-batches, rows, …), with those of the others."""
        micro_batches, count, *rest = rows.shape
        shape = (micro_batches, count * self.world, *rest)
        return jax.make_array_from_process_local_data(self.sharding(None, BATCH_AXES), rows, shape)

    def local_rows(self, rows: jax.Array) -> npt.NDArray[Any]:
        """Return this process's rows, (micro-batches, rows, …), of what `shard_rows` has joined."""
        parts = {shard.index[1].start or 0: shard.data for shard in rows.addressable_shards}
        return np.concatenate([np.asarray(parts[start]) for start in sorted(parts)], axis=1)

    def all_gather(self, part: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the arrays of all processes, which have one shape: (world, …)."""
        if self.world == 1:
            return part[None]
        words = multihost_utils.process_allgather(part.view(np.uint32))  # JAX would round float64 to fp32
        return np.asarray(words).view(np.float64)


@contextlib.contextmanager
def join_processes(
    layout: Layout, *, rank: int, coordinator: str, exact: bool, deterministic: bool, timeout: float
) -> Iterator[DistributedContext]:
    """Initialize the devices together with the other processes, and shut down after a block without an error.

    Args:
        layout: the layout of the plan.
        rank: number of this process.
        coordinator: address and port at which the first process listens.
        exact: whether to multiply fp32 in fp32, which accelerators round otherwise.
        deterministic: whether results on GPUs may not depend on the order of threads.
        timeout: seconds to wait for the other processes; the first one may be hashing a large checkpoint.

    Raises:
        MachineError: the devices of the layout are not available.
    """
    if layout.device == "cpu":
        jax.config.update("jax_num_cpu_devices", layout.devices)
    if layout.device == "gpu" and deterministic:
        os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_gpu_deterministic_ops=true".strip()
    jax.config.update("jax_default_matmul_precision", "highest" if exact else None)
    if layout.processes > 1:
        handler = signal.getsignal(signal.SIGTERM)
        first = _local_rank(layout, rank) * layout.devices  # of the devices of this machine
        local = range(first, first + layout.devices) if layout.device == "gpu" else None
        jax.distributed.initialize(
            coordinator, layout.processes, rank, local and list(local), initialization_timeout=int(timeout)
        )
        signal.signal(signal.SIGTERM, handler)  # JAX replaces the handler, and the session would miss the signal
    _check_devices(layout)
    yield DistributedContext(layout, rank)
    if layout.processes > 1:  # not after an error: shutdown waits for the others, which wait for this process
        jax.distributed.shutdown()


def _local_rank(layout: Layout, rank: int) -> int:
    """Return the number of this process among those of its machine."""
    if layout.per_host:
        return int(os.environ["LOCAL_RANK"])
    return 0 if layout.coordinator else rank


def _check_devices(layout: Layout) -> None:
    """Raise MachineError unless the devices of the layout are available."""
    try:
        count = jax.local_device_count()
    except (RuntimeError, AssertionError) as error:  # the latter if JAX is built for CPUs only
        fix = f'{SECTION}.device = "cpu", or install JAX for this device; `jprep doctor` lists what is installed'
        what = f"JAX finds no {layout.device.upper()}" + (f": {error}" if str(error) else "")
        raise MachineError(what, where=SECTION, fix=fix) from error
    if count != layout.devices:
        what = f"JAX finds {count} devices for each process, but the plan uses {layout.devices}"
        raise MachineError(what, where=SECTION, fix=f"{SECTION}.devices = {count}")
