"""The work of the stages of a tokenizer."""

from __future__ import annotations

import math
import statistics
from collections.abc import Generator, Iterator, Sequence

from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup, equal_tasks, folder_sizes, spread_of
from jprep.pipeline.estimate.measuring.calibration import LEARNING, SCORING, MeasuredStep
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage
from jprep.tokenizer.config import TokenizerConfig
from jprep.tokenizer.counting.merging import RANGE_ROWS, STAGES, SUMMING
from jprep.tokenizer.counting.sample import AIM
from jprep.tokenizer.counting.sequence_stages import SUMMING as SEQUENCE_SUMMING
from jprep.tokenizer.counting.stages import MIN_TASK_BYTES, RUNS, SAMPLES, TASKS

_SUMMING = (SUMMING, SEQUENCE_SUMMING)
_EXPONENT = 0.7  # of Heaps' law, where the sample has one task only
_EXPONENTS = (0.3, 1.0)


def tokenizer_loads(config: TokenizerConfig, step: MeasuredStep, growth: float, shards: int) -> Iterator[StageLoad]:
    """Yield the loads of counting, merging, learning and scoring; sequences of words are counted after words.

    The time to learn is taken to grow with the square root of the number of units that the trainer receives: it lies
    between a time that does not depend on them and one in proportion to them.

    Args:
        config: the section `[tokenizer]`.
        step: what the sample took.
        growth: how many times as large the corpus is as that of the sample.
        shards: number of shards of the corpus.
    """
    words, sequences = step.stages[: len(STAGES)], step.stages[len(STAGES) :]
    counting, *_ = words
    units = yield from _counting_loads(words, step.rest, growth, shards)
    if sequences:
        yield from _counting_loads(sequences, 0.0, growth, shards)
    sampled = _sample_factor(counting, growth)
    learnt = math.sqrt(units.learnt_factor(config.max_words))
    memory = step.memory + round((learnt - 1) * max(0, step.memory - counting.memory))
    yield StageLoad("tokenizer", LEARNING, [TaskGroup(1, learnt * step.phases.get(LEARNING, 0.0))], memory=memory)
    scoring = TaskGroup(1, sampled * step.phases.get(SCORING, 0.0), 0.0, 0.0, step.result, step.files)
    yield StageLoad("tokenizer", SCORING, [scoring], memory=step.memory, folders={"result": float(step.result)})


def _counting_loads(
    stages: Sequence[MeasuredStage], rest: float, growth: float, shards: int
) -> Generator[StageLoad, None, UnitGrowth]:
    """Yield the loads of the stages that count words or sequences, and return how the number of these grows."""
    counting, *merging = stages
    text = growth * sum(task.weight for task in counting.tasks)
    count = max(1, min(shards, math.ceil(text / max(MIN_TASK_BYTES, text / TASKS))))
    distinct = max((sum(task.counts.get("units.distinct", 0) for task in stage.tasks) for stage in merging), default=0)
    units, sampled = UnitGrowth(counting, distinct, growth, count), _sample_factor(counting, growth)
    folders = {name: units.merge_factor * size for name, size in folder_sizes(counting, 1.0).items()}
    copied = folder_sizes(counting, 1.0).get(SAMPLES, 0.0)
    if copied:
        folders[SAMPLES] = sampled * copied
    group = equal_tasks(counting, growth, count, text)._replace(written=sum(folders.values()) / count)
    yield StageLoad(
        "tokenizer", counting.name, [group], rest, counting.startup, counting.memory, spread_of(counting), folders
    )
    rows = units.merge_factor * sum(task.rows.get(RUNS, 0) for task in counting.tasks)
    for stage in merging:
        tasks = math.ceil(rows / RANGE_ROWS) or 1 if stage.name in _SUMMING else 1
        merged = equal_tasks(stage, units.merge_factor, tasks, sum(folders.values()))
        sizes = _merged_sizes(stage, units.distinct_factor, sampled, copied)
        yield StageLoad("tokenizer", stage.name, [merged], 0.0, stage.startup, stage.memory, 0.0, sizes)
    return units


def _merged_sizes(stage: MeasuredStage, grown: float, sampled: float, copied: float) -> dict[str, float]:
    """Return the bytes that a stage writes. The last one writes the sample of paragraphs, too, of so many bytes."""
    if stage.name in _SUMMING:
        return folder_sizes(stage, grown)
    return {stage.name: grown * max(0.0, stage.written - copied) + sampled * copied}


def _sample_factor(counting: MeasuredStage, growth: float) -> float:
    """Return how many times as long the sample of paragraphs is, which has a fixed size for all but small corpora."""
    text = sum(task.weight for task in counting.tasks)
    return min(growth * text, AIM) / min(text, AIM) if text else 1.0


class UnitGrowth:
    """How the number of different units grows from the sample to the whole corpus: as a power of the text (Heaps' law).

    The exponent is that between the tasks of the sample and all of it.

    Args:
        counting: the stage that counts.
        growth: how many times as large the corpus is as that of the sample.
        count: number of tasks that count the whole corpus.

    Attributes:
        exponent: the exponent.
        merge_factor: how many times as many units all tasks together hand to the merge.
        distinct_factor: how many times as many different units there are.
    """

    def __init__(self, counting: MeasuredStage, distinct: int, growth: float, count: int) -> None:
        runs = len(counting.tasks)
        each = statistics.mean([task.rows.get(RUNS, 1) for task in counting.tasks] or [1])
        self.exponent, self._distinct = _EXPONENT, max(1, distinct)
        if runs > 1 and distinct > each > 0:
            low, high = _EXPONENTS
            self.exponent = min(high, max(low, math.log(distinct / each) / math.log(runs)))
        self.merge_factor = (growth * runs / count) ** self.exponent * count / max(1, runs)
        self.distinct_factor = float(growth**self.exponent)

    def learnt_factor(self, limit: int) -> float:
        """Return how many times as many units the trainer receives, which are at most so many."""
        return min(limit, self._distinct * self.distinct_factor) / min(limit, self._distinct)
