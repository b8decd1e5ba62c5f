"""Select the ZeRO stage and the micro-batch that fit the devices, and describe alternatives."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from jprep.train.backend import MicroBatchEstimate, Target
from jprep.train.planning.memory_fit import fits_memory
from jprep.train.planning.micro_batch import micro_batch_sizes, smaller_micro_batches
from jprep_deepspeed.options import SECTION
from jprep_deepspeed.planning.layout_types import STAGES, Layout
from jprep_deepspeed.planning.memory import MemoryEstimate

_SUGGESTIONS = 3
_GB = 1e9
_WORDS = {True: "fits", False: "does not fit", None: "may fit"}


class StageSelector:
    """Selects the layout of a job.

    Args:
        widest: the layout that the options ask for, with all rows of a process as micro-batch.
        estimate: returns the memory of a layout.
        target: the devices.

    Attributes:
        target: the devices.
    """

    def __init__(self, widest: Layout, estimate: Callable[[Layout], MemoryEstimate], target: Target) -> None:
        self._widest, self._estimate, self.target = widest, estimate, target

    def choose(self, stages: list[int], micro_batch: int) -> Layout:
        """Return the smallest stage that fits, with the largest micro-batch that fits.

        If nothing fits: the largest stage with the smallest micro-batch.

        Args:
            stages: the stages that are allowed, the smallest first.
            micro_batch: the requested micro-batch; 0 to choose.
        """
        layouts = (self._in_stage(stage, micro_batch) for stage in stages)
        return next((layout for layout in layouts if self._may_fit(layout)), self._in_stage(stages[-1], micro_batch))

    def notes(self, chosen: Layout) -> list[str]:
        """Return a line for each stage, and what would fit if the chosen layout does not."""
        stages = STAGES if chosen.world > 1 else [chosen.stage]
        notes = [self._line(chosen.with_stage(stage), taken=stage == chosen.stage) for stage in stages]
        if chosen.offload_optimizer != "none" and not (self.target.on_host or self.target.host_memory):
            needed = self._estimate(chosen).host * self.target.count / _GB
            what = f"the memory of the host is not known: all processes need an estimated {needed:.2f} GB there"
            notes.append(f"{what}; set {SECTION}.host_memory = GiB of each host")
        if disk := self._estimate(chosen).disk:
            notes.append(f"each process keeps {disk / _GB:.2f} GB in files below {chosen.nvme_path}")
        if not self._may_fit(chosen):
            notes.append(f"what would fit: {'; '.join(self._suggestions(chosen)) or 'nothing known'}")
        return notes

    def smaller(self, chosen: Layout) -> tuple[MicroBatchEstimate, ...]:
        """Return smaller micro-batches of a layout."""

        def memory(rows: int) -> MemoryEstimate:
            return self._estimate(chosen.with_micro_batch(rows))

        found = smaller_micro_batches(chosen.rows, chosen.micro_batch, lambda rows: memory(rows).total)
        return tuple(msgspec.structs.replace(one, host_memory=memory(one.rows).host) for one in found)

    def _in_stage(self, stage: int, micro_batch: int) -> Layout:
        sizes = [micro_batch] if micro_batch else micro_batch_sizes(self._widest.rows)
        layouts = [self._widest.with_stage(stage).with_micro_batch(size) for size in sizes]
        return next((layout for layout in layouts if self._may_fit(layout)), layouts[-1])

    def _suggestions(self, chosen: Layout) -> list[str]:
        """Return options that would make the job fit, at most three."""
        found = []
        for alternatives in _alternatives(chosen):
            fitting = next(((words, layout) for words, layout in alternatives if self._may_fit(layout)), None)
            if fitting:
                found.append(self._suggestion(*fitting))
        return found[:_SUGGESTIONS]

    def _suggestion(self, words: str, layout: Layout) -> str:
        """Return a suggestion, with the main memory that it needs if the target's is not known."""
        if self._fits(layout):
            return words
        return f"{words} (with {self._estimate(layout).host / _GB:.1f} GB of its host's memory for each process)"

    def _may_fit(self, layout: Layout) -> bool:
        return self._fits(layout) is not False

    def _fits(self, layout: Layout) -> bool | None:
        memory = self._estimate(layout)
        return fits_memory(self.target, memory.total, memory.host)

    def _line(self, layout: Layout, *, taken: bool) -> str:
        memory = self._estimate(layout)
        parts = ", ".join(f"{name} {size / _GB:.2f}" for name, size in memory.parts())
        line = f"ZeRO {layout.stage}{' (taken)' if taken else ''}: {memory.total / _GB:.2f} GB a process: {parts}"
        if memory.host:
            line += f"; and {memory.host / _GB:.2f} GB of its host's"
        if self.target.memory:
            line += f"; {_WORDS[self._fits(layout)]} {self.target.name}"
        return line


def _alternatives(layout: Layout) -> Iterator[list[tuple[str, Layout]]]:
    """Yield groups of changes to the options with the resulting layouts, the cheapest group first.

    One change of a group is enough.
    """
    last = max(STAGES)
    if layout.world > 1:
        yield [(f"stage = {stage}", layout.with_stage(stage)) for stage in STAGES[layout.stage + 1 :]]
    sizes = micro_batch_sizes(layout.rows, layout.micro_batch - 1)
    yield [(f"micro_batch = {size}", layout.with_micro_batch(size)) for size in sizes]
    lean, words = layout._replace(gradient_checkpointing=True), "gradient_checkpointing = true"
    yield [(words, lean)]
    offloaded = lean._replace(stage=max(1, layout.stage), offload_optimizer="cpu")
    yield [(f'stage = {offloaded.stage}, {words}, offload_optimizer = "cpu"', offloaded)]
    all_offloaded = offloaded._replace(stage=last, offload_param=True)
    yield [(f'stage = {last}, {words}, offload_optimizer = "cpu", offload_param = "cpu"', all_offloaded)]
    factors = (factor for factor in (2, 4, 8, 16, 32) if layout.accumulate % factor == 0)
    wider = [layout._replace(world=layout.world * n, accumulate=layout.accumulate // n, stage=last) for n in factors]
    yield [(f"stage = {last} with {one.world} processes", one) for one in wider]
