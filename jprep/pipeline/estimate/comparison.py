"""Compare a stored plan with what the steps took."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jprep.engine.usage import OutputUsage, measure_folder, read_usage
from jprep.pipeline.estimate.result import RecipeEstimate, StepEstimate

MEASURED = ("corpus", "tokenizer", "dataset")
"""Steps whose usage is recorded."""


class StepComparison(msgspec.Struct, frozen=True, kw_only=True):
    """What a step was planned to take, and took.

    Attributes:
        name: the step, or `step/stage`.
        cpu: planned and actual seconds of CPU.
        wall: planned and actual seconds.
        disk: planned and actual most bytes of the output directory.
        result: planned and actual bytes of the finished output; zeros for a stage.
        memory: planned and actual bytes of the largest process.
    """

    name: str
    cpu: tuple[float, float]
    wall: tuple[float, float]
    disk: tuple[int, int]
    result: tuple[int, int]
    memory: tuple[int, int]


def compare_with_usage(estimate: RecipeEstimate, folders: dict[str, Path]) -> list[StepComparison]:
    """Return the comparison of each step that did some work, followed by those of its stages.

    Args:
        estimate: the plan.
        folders: the output directory of each step.
    """
    found = list[StepComparison]()
    for step in estimate.steps:
        if step.step in MEASURED and (taken := read_usage(folders[step.step])).wall:
            found += [_compare_step(step, taken, folders[step.step]), *_compare_stages(step, taken)]
    return found


def _compare_step(step: StepEstimate, taken: OutputUsage, folder: Path) -> StepComparison:
    memory = max([taken.memory, *(stage.memory for stage in taken.stages.values())])
    return StepComparison(
        name=step.step,
        cpu=(step.cpu, taken.cpu),
        wall=(step.wall, taken.wall),
        disk=(step.disk, taken.peak_disk),
        result=(step.result, measure_folder(folder)[0]),
        memory=(step.memory, memory),
    )


def _compare_stages(step: StepEstimate, taken: OutputUsage) -> list[StepComparison]:
    return [
        StepComparison(
            name=f"{step.step}/{stage.name}",
            cpu=(stage.cpu, actual.cpu + actual.main),
            wall=(stage.wall, actual.wall),
            disk=(stage.disk, actual.disk),
            result=(0, 0),
            memory=(stage.memory, actual.memory),
        )
        for stage in step.stages
        if (actual := taken.stages.get(stage.name))
    ]
