"""The work of the stages of a corpus."""

from __future__ import annotations

from collections.abc import Iterator

from jprep.corpus.dedup.hashes import BAND_KEYS, HASHES, HashBuckets
from jprep.corpus.store import DOCUMENTS
from jprep.engine.stage import Output
from jprep.pipeline.estimate.loads.input_loads import inputs_load, reading_group
from jprep.pipeline.estimate.loads.source_scale import SourceScale
from jprep.pipeline.estimate.loads.task_loads import StageLoad, TaskGroup, equal_tasks, folder_sizes, spread_of
from jprep.pipeline.estimate.measuring.calibration import Calibration
from jprep.pipeline.estimate.measuring.input_sizes import SourceSizes
from jprep.pipeline.estimate.measuring.sampling import SHARD_MB
from jprep.pipeline.estimate.measuring.sampling_executor import MeasuredStage
from jprep.pipeline.recipe import Recipe

_BY_SOURCE = ("documents", "words")
_BUCKETS = {"dedup": HASHES, "near-pairs": BAND_KEYS, "repeated_ids": HASHES}
"""Stages with a task for each bucket of hashes, and the folder of the files that they read."""

_SHARD_MEMORY = 4  # bytes of memory for each byte by which a shard is larger than the sample's: assumed
_RECORD = 24  # bytes of a hash with its position
_RECORD_MEMORY = 100  # bytes of memory for each hash of a bucket: 200 MB for two million


class CorpusLoads:
    """The loads of a corpus.

    Args:
        recipe: the recipe.
        calibration: what the sample took.
        sizes: the sizes of the inputs of each source.

    Attributes:
        growth: how many times as large the corpus is as that of the sample.
        text: bytes of text of the corpus.
        shards: number of its shards.
        factors: how many times as large each source is as its sample.
    """

    def __init__(self, recipe: Recipe, calibration: Calibration, sizes: list[SourceSizes]) -> None:
        self._step, self._machine = calibration.steps["corpus"], calibration.machine
        self._stages = {stage.name: stage for stage in self._step.stages}
        self._sources = [SourceScale(number, recipe, calibration, each) for number, each in enumerate(sizes)]
        self._inputs = sum(each.total for each in sizes)
        last = self._stages.get("words", self._stages["documents"])
        written = sum(task.sizes.get(DOCUMENTS, 0) for task in last.tasks)
        self.growth = self._folders(last).get(DOCUMENTS, 0.0) / written if written else 1.0
        self.text = sum(
            source.factor_of(last) * task.counts.get("total.bytes", 0)
            for source in self._sources
            for task in source.tasks(last)
        )
        self.shards = sum(source.count for source in self._sources)
        self.factors = [source.factor for source in self._sources]

    def loads(self) -> Iterator[StageLoad]:
        """Yield the load of each stage, in order."""
        serial = self._step.rest + self._inputs / self._machine.hashing
        if inputs := inputs_load(self._sources, self._stages["documents"].memory, serial):
            yield inputs
            serial = 0.0
        for stage in self._step.stages:
            groups = self._groups(stage)
            memory = stage.memory + self._more_memory(stage.name, groups)
            spread, folders = spread_of(stage), self._folders(stage)
            yield StageLoad("corpus", stage.name, groups, serial, stage.startup, memory, spread, folders)
            serial = 0.0

    def _groups(self, stage: MeasuredStage) -> list[TaskGroup]:
        if stage.name in _BY_SOURCE:
            return [self._source_group(stage, source) for source in self._sources if source.tasks(stage)]
        if stage.name in _BUCKETS:
            return [self._bucket_group(stage)]
        count = self.shards if stage.name == "ids" or len(stage.tasks) > 1 else 1
        read = self._folders(self._stages["documents"]).get(DOCUMENTS, 0.0)
        return [equal_tasks(stage, self.growth, count, read)]

    def _source_group(self, stage: MeasuredStage, source: SourceScale) -> TaskGroup:
        tasks = source.tasks(stage)
        part = MeasuredStage(stage.name, tasks=tasks, files=sum(len(task.sizes) for task in tasks))
        read = source.total
        if stage.name == "words":
            read = source.factor * sum(task.sizes.get(DOCUMENTS, 0) for task in source.read)
        group = equal_tasks(part, source.factor_of(stage), source.count, read)
        return reading_group(source, group) if stage.name == "documents" else group

    def _bucket_group(self, stage: MeasuredStage) -> TaskGroup:
        """Return the tasks of a stage with buckets, each of which opens every file of hashes."""
        folder, ids = _BUCKETS[stage.name], stage.name == "repeated_ids"
        before = self._rows(self._stages["ids" if ids else "documents"], folder)
        rows = self.growth * before if ids else self._scaled_rows(folder)
        count = len(HashBuckets([Output(f"{folder}/all", round(rows), "")]))
        group = equal_tasks(stage, rows / before if before else 1.0, count, rows * _RECORD)
        return group._replace(cpu=group.cpu + self.shards * self._machine.mapping)

    def _rows(self, stage: MeasuredStage, folder: str) -> int:
        return sum(task.rows.get(folder, 0) for task in stage.tasks)

    def _scaled_rows(self, folder: str) -> float:
        read = self._stages["documents"]
        return sum(source.factor * task.rows.get(folder, 0) for source in self._sources for task in source.tasks(read))

    def _more_memory(self, stage: str, groups: list[TaskGroup]) -> int:
        """Return the bytes that a process needs besides those on the sample, whose shards and buckets are small."""
        if stage in _BY_SOURCE:
            larger = max(source.shard_ratio for source in self._sources) - 1
            return round(larger * SHARD_MB * 1_000_000 * _SHARD_MEMORY)
        if stage in _BUCKETS:
            return round(max(group.read for group in groups) / _RECORD * _RECORD_MEMORY)
        return 0

    def _folders(self, stage: MeasuredStage) -> dict[str, float]:
        if stage.name not in _BY_SOURCE:
            return folder_sizes(stage, self.growth)
        sizes: dict[str, float] = {}
        for source in self._sources:
            part = MeasuredStage(stage.name, tasks=source.tasks(stage))
            for folder, size in folder_sizes(part, source.factor_of(stage)).items():
                sizes[folder] = sizes.get(folder, 0.0) + size
        return sizes
