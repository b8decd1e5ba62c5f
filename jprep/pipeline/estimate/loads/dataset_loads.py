"""The work of the stages of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator

from jprep.dataset.preprocessing.merge import PIECE
from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup, equal_tasks, folder_sizes, spread_of
from jprep.pipeline.estimate.measuring.calibration import MeasuredStep
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredTask

_PIECE_BYTES = 2 * PIECE  # of tokens of two bytes; a large vocabulary has larger ones, and half as large pieces


def dataset_loads(step: MeasuredStep, growth: float, shards: int) -> Iterator[StageLoad]:
    """Yield the loads of encoding, with a task for each shard, and of what joins the results.

    Args:
        step: what the sample took.
        growth: how many times as large the corpus is as that of the sample.
        shards: number of shards of the corpus.
    """
    encoding, *joining = step.stages
    text = growth * sum(task.weight for task in encoding.tasks)
    groups, folders = [equal_tasks(encoding, growth, shards, text)], folder_sizes(encoding, growth)
    spread = spread_of(encoding)
    yield StageLoad("dataset", encoding.name, groups, step.rest, encoding.startup, encoding.memory, spread, folders)
    for stage in joining:
        groups, folders = [_grown(task, growth) for task in stage.tasks], folder_sizes(stage, growth)
        yield StageLoad("dataset", stage.name, groups, 0.0, stage.startup, stage.memory, 0.0, folders)


def _grown(task: MeasuredTask, growth: float) -> TaskGroup:
    """Return the tasks that write so many times as much: pieces of a limited size, or one index of a split."""
    size = growth * task.written
    count = 1 if task.id.endswith("-index") else math.ceil(growth * task.weight / _PIECE_BYTES) or 1
    each = size / count
    return TaskGroup(count, growth * task.cpu / count, growth * task.main / count, each, each, len(task.sizes))
