"""Divide a batch among devices, and choose the micro-batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from jprep.errors import ConfigError
from jprep.train.backend import MicroBatchEstimate, Target
from jprep.train.planning.memory_fit import fits_memory

_LARGEST = 1 << 14  # the largest micro-batch that is considered
_LISTED = 8  # smaller micro-batches in a plan


class MicroBatchChoice(NamedTuple):
    """A micro-batch, and what follows from it.

    Attributes:
        rows: rows that pass through the model at a time on one device.
        accumulate: number of micro-batches for each update.
        memory: estimated bytes on one device.
        smaller: smaller micro-batches, the largest first.
    """

    rows: int
    accumulate: int
    memory: int
    smaller: tuple[MicroBatchEstimate, ...]


def rows_per_device(batch: int, devices: int, section: str) -> int:
    """Return the rows of a global batch for each device or process.

    Args:
        batch: rows of the global batch.
        devices: number of devices or processes.
        section: the backend's section of the recipe, for messages.

    Raises:
        ConfigError: the batch cannot be divided evenly.
    """
    if batch % devices:
        what = f"a batch of {batch} rows cannot be divided among {devices} processes or devices"
        fix = f"set train.batch to a multiple of {devices}, or use fewer processes or devices in [{section}]"
        raise ConfigError(what, where=section, fix=fix)
    return batch // devices


def micro_batch_sizes(rows: int, largest: int = _LARGEST) -> Iterator[int]:
    """Yield the micro-batches that divide a device's rows evenly, the largest first.

    Args:
        rows: rows of one device in a batch.
        largest: upper limit.
    """
    return (number for number in range(min(rows, largest, _LARGEST), 0, -1) if rows % number == 0)


def choose_micro_batch(
    rows: int, requested: int, estimate: Callable[[int], int], target: Target, section: str
) -> MicroBatchChoice:
    """Return the requested micro-batch, or the largest that fits the target's memory, at least one row.

    Args:
        rows: rows of one device in a batch.
        requested: the option `micro_batch`; 0 to choose.
        estimate: returns the bytes on one device for a micro-batch.
        target: the devices.
        section: the backend's section of the recipe, for messages.

    Raises:
        ConfigError: the requested micro-batch does not divide the device's rows.
    """
    check_micro_batch(rows, requested, section)
    fitting = (number for number in micro_batch_sizes(rows) if fits_memory(target, estimate(number)) is not False)
    chosen = requested or next(fitting, 1)
    return MicroBatchChoice(chosen, rows // chosen, estimate(chosen), smaller_micro_batches(rows, chosen, estimate))


def check_micro_batch(rows: int, requested: int, section: str) -> None:
    """Check that a micro-batch divides a device's rows.

    Raises:
        ConfigError: it does not.
    """
    if requested and rows % requested:
        what = f"a micro-batch of {requested} rows does not divide the {rows} rows of each device"
        raise ConfigError(what, where=f"{section}.micro_batch", fix=f"use a divisor of {rows}")


def smaller_micro_batches(rows: int, chosen: int, estimate: Callable[[int], int]) -> tuple[MicroBatchEstimate, ...]:
    """Return the next smaller micro-batches with their memory, and always the smallest.

    Args:
        rows: rows of one device in a batch.
        chosen: the present micro-batch.
        estimate: returns the bytes on one device for a micro-batch.
    """
    numbers = list(micro_batch_sizes(rows, chosen - 1))
    listed = numbers if len(numbers) <= _LISTED else [*numbers[: _LISTED - 1], numbers[-1]]
    return tuple(MicroBatchEstimate(number, estimate(number)) for number in listed)
