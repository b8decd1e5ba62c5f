"""Which of ZeRO's stages fits a device, and what would where none does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from jprep.train.backend import MicroBatchEstimate, Target
from jprep.train.planning.memory_fit import fits_memory, micro_batch_sizes, smaller_micro_batches
from jprep_deepspeed.options import SECTION, Layout
from jprep_deepspeed.planning.memory import MemoryEstimate

_TOLD = 3  # ways out
_GB = 1e9
_STAGES = range(4)
_WORDS = {True: "fits", False: "does not fit", None: "may fit"}
_UNKNOWN_HOST = "the memory of the host planned for is not known"
_TELL = f"{SECTION}.host_memory = GiB says what it has"


class StageSelector:
    """Looks for the layout of a job.

    Args:
        asked: what the options say; its stage and rows where they say them.
        estimate: a layout's memory.
        target: the devices.

    Attributes:
        target: the devices.
    """

    def __init__(self, asked: Layout, estimate: Callable[[Layout], MemoryEstimate], target: Target) -> None:
        self._asked, self._estimate, self.target = asked, estimate, target

    def choose(self, stages: list[int], rows: int) -> Layout:
        """The smallest stage that fits, with as many rows as fit; else the largest stage with as few as can be.

        Args:
            stages: those that may be.
            rows: at a time; 0 for any.
        """
        found = (self._of(stage, rows) for stage in stages)
        return next((one for one in found if self._fits(one)), self._of(stages[-1], rows))

    def notes(self, chosen: Layout) -> list[str]:
        """A line for each stage, and what would fit where the chosen one does not."""
        stages = _STAGES if chosen.world > 1 else [chosen.stage]
        found = [self._line(_at(chosen, stage), taken=stage == chosen.stage) for stage in stages]
        if chosen.offload_optimizer and not (self.target.on_host or self.target.host_memory):
            asked = self._estimate(chosen).host * self.target.count / _GB
            found.append(f"{_UNKNOWN_HOST}: all processes together need {asked:.2f} GB there, estimated; {_TELL}")
        if not self._fits(chosen):
            ways = (
                next((self._way(words, one) for words, one in way if self._fits(one)), "") for way in _others(chosen)
            )
            would = [words for words in ways if words][:_TOLD]
            found.append(f"what would fit: {'; '.join(would) if would else 'nothing known'}")
        return found

    def smaller(self, chosen: Layout) -> tuple[MicroBatchEstimate, ...]:
        """Return the next smaller micro-batches of a layout."""

        def host(rows: int) -> int:
            return self._estimate(_with_rows(chosen, rows)).host

        own = chosen.rows * chosen.accumulate
        found = smaller_micro_batches(own, chosen.rows, lambda rows: self._estimate(_with_rows(chosen, rows)).total)
        return tuple(msgspec.structs.replace(one, host_memory=host(one.rows)) for one in found)

    def _of(self, stage: int, rows: int) -> Layout:
        own = self._asked.rows * self._asked.accumulate
        numbers = [rows] if rows else micro_batch_sizes(own)
        layouts = [_with_rows(_at(self._asked, stage), number) for number in numbers]
        return next((one for one in layouts if self._fits(one)), layouts[-1])

    def _way(self, words: str, layout: Layout) -> str:
        """A way out, with the memory of the host that it needs where nothing is known of that."""
        if self._holds(layout):
            return words
        return f"{words} (with {self._estimate(layout).host / _GB:.1f} GB of its host's memory for each process)"

    def _fits(self, layout: Layout) -> bool:
        """Whether nothing known stands against it."""
        return self._holds(layout) is not False

    def _holds(self, layout: Layout) -> bool | None:
        memory = self._estimate(layout)
        return fits_memory(self.target, memory.total, memory.host)

    def _line(self, layout: Layout, *, taken: bool) -> str:
        memory = self._estimate(layout)
        parts = ", ".join(f"{name} {size / _GB:.2f}" for name, size in memory.parts())
        line = f"ZeRO {layout.stage}{' (taken)' if taken else ''}: {memory.total / _GB:.2f} GB a process: {parts}"
        if memory.host:
            line += f"; and {memory.host / _GB:.2f} GB of its host's"
        if self.target.memory:
            line += f"; {_WORDS[self._holds(layout)]} {self.target.name}"
        return line


def _at(layout: Layout, stage: int) -> Layout:
    """A layout in another stage, with what can be offloaded there."""
    optimizer, param = layout.offload_optimizer and stage > 0, layout.offload_param and stage == max(_STAGES)
    return layout._replace(stage=stage, offload_optimizer=optimizer, offload_param=param)


def _with_rows(layout: Layout, rows: int) -> Layout:
    return layout._replace(rows=rows, accumulate=layout.rows * layout.accumulate // rows)


def _others(layout: Layout) -> Iterator[list[tuple[str, Layout]]]:
    """What a user could change, the cheapest way first, and what becomes of the layout: of each way one will do."""
    last, own = max(_STAGES), layout.rows * layout.accumulate
    if layout.world > 1:
        yield [(f"stage = {stage}", _at(layout, stage)) for stage in _STAGES[layout.stage + 1 :]]
    yield [(f"rows = {rows}", _with_rows(layout, rows)) for rows in micro_batch_sizes(own, layout.rows - 1)]
    lean = layout._replace(recompute=True)
    yield [("recompute = true", lean)]
    away = lean._replace(stage=max(1, layout.stage), offload_optimizer=True)
    yield [(f'stage = {away.stage}, recompute = true, offload_optimizer = "cpu"', away)]
    all_away = away._replace(stage=last, offload_param=True)
    yield [('stage = 3, recompute = true, offload_optimizer = "cpu", offload_param = "cpu"', all_away)]
    divided = (times for times in (2, 4, 8, 16, 32) if layout.accumulate % times == 0)
    several = [layout._replace(world=layout.world * t, accumulate=layout.accumulate // t, stage=last) for t in divided]
    yield [(f"stage = {last} with {one.world} processes", one) for one in several]
