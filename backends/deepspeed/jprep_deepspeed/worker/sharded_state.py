"""The fp32 weights and averages of stage 3, in memory or in files (NVMe)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import Tensor, distributed


class OwnRange(NamedTuple):
    """The numbers of a weight that this process updates, which are neighbours in a flat tensor.

    Attributes:
        start: where they begin in the weight.
        flat_start: where they begin in the flat tensor.
        size: how many they are.
    """

    start: int
    flat_start: int
    size: int

    @property
    def in_weight(self) -> slice:
        """Where they are in the flattened weight."""
        return slice(self.start, self.start + self.size)

    @property
    def in_flat(self) -> slice:
        """Where they are in the flat tensor."""
        return slice(self.flat_start, self.flat_start + self.size)


def range_in_stage_3(zero: Any, weight: Any) -> OwnRange:
    """Return the numbers of a weight that this process updates in stage 3, without padding.

    Args:
        zero: DeepSpeed's optimizer.
        weight: the weight.
    """
    _, flat_start, size = _place(zero, weight)
    start = min(size * distributed.get_rank(), weight.ds_numel)
    return OwnRange(start, flat_start, min(size, weight.ds_numel - start))


def _place(zero: Any, weight: Any) -> tuple[int, int, int]:
    """Return the group of a weight in stage 3, and the start and size of this process's part, padding included."""
    group, start, size = zero.grad_position[zero.get_param_id(weight)]
    return group, start, size


class ShardedState:
    """This process's parts of fp32 weights and of their averages in stage 3.

    DeepSpeed has the weights in groups. Where it keeps those in files, one of them at a time is in memory.

    Args:
        zero: DeepSpeed's optimizer.
    """

    def __init__(self, zero: Any) -> None:
        self._zero = zero
        self._held = -1
        self._changed = False

    def group(self, weight: Tensor) -> int:
        """Return the index of the group of a weight."""
        return int(_place(self._zero, weight)[0])

    def options(self, group: int) -> Mapping[str, Any]:
        """Return the options of PyTorch's optimizer for a group."""
        found: Mapping[str, Any] = self._zero.optimizer.param_groups[self._zero.sub_group_to_group_id[group]]
        return found

    def hold(self, group: int, *, change: bool = False) -> Tensor:
        """Return the fp32 weights of a group, and keep the group in memory until another is asked for or `release`.

        Args:
            group: index of the group.
            change: whether the weights or the averages will be changed.
        """
        if group != self._held:
            self.release()
            if self._zero._swappable_optimizer_subgroup(group):
                self._zero._optimizer_states_and_gradient_swap_in(group)
            self._held = group
        self._changed |= change
        weights: Tensor = self._zero.fp32_partitioned_groups_flat[group]
        return weights

    def release(self) -> None:
        """Write the held group if it was changed, and free its memory if it is kept in files."""
        if self._held >= 0 and self._zero._swappable_optimizer_subgroup(self._held):
            if self._changed:
                self._zero._optimizer_states_and_gradient_swap_out(self._held)
            else:
                self._zero._release_swap_buffers(self._held)
        self._held, self._changed = -1, False

    def part(self, weight: Tensor, key: str | None, *, change: bool = False) -> Tensor:
        """Return this process's part of a fp32 weight, or of an average.

        Args:
            weight: the weight.
            key: of the average in the optimizer's state; None for the weight.
            change: whether it will be changed.
        """
        group, start, size = _place(self._zero, weight)
        held = self.hold(group, change=change)
        values: Tensor = held if key is None else self._zero.optimizer.state[held][key]
        return values.narrow(0, start, size)

    def own_range(self, weight: Tensor) -> OwnRange:
        """Return which numbers of a weight are in the part of this process, before its padding."""
        return range_in_stage_3(self._zero, weight)

    def whole(self, weight: Tensor, key: str | None) -> Tensor:
        """Return a whole fp32 weight, or average, gathered from all processes. Each must call it."""
        part = self.part(weight, key)
        gathered: Tensor = self._zero._fp32_state_allgather(weight, part)
        return gathered.detach()
