"""The first stage: read the inputs as documents, normalize, split and filter them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.decontamination.findings import FINDINGS, Occurrence, write_occurrences
from jprep.corpus.dedup.hashes import (
    BAND_KEYS,
    HASHES,
    RANKS,
    DocumentHashWriter,
    RankWriter,
    lines_of,
    sentences_of,
)
from jprep.corpus.dedup.near.signatures import BandKeyWriter
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.input_files import refuse_changed
from jprep.corpus.processing import measure_changed, take_tally
from jprep.corpus.stages.inputs import CutInputs
from jprep.corpus.stages.planned_shards import (
    PlannedShard,
    cached_outputs,
    digest_group,
    group_shards,
    load_shard,
    without_data,
)
from jprep.corpus.stages.read_plan import ReadPlan
from jprep.corpus.stages.sources import task_id_prefix
from jprep.corpus.stages.task_output import HashWriter, open_task_output
from jprep.engine.output_kinds import STATE
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.io.inputs.paths import short_names


def source_index(part: Output) -> int:
    """Return the index of the source that a file of documents belongs to."""
    return int(Path(part.path).name[:4])


class ReadStage(Stage):
    """Reads, normalizes, splits and filters documents; segments them too if the corpus is not deduplicated.

    Args:
        plan: the inputs and steps.
        metadata: metadata of the Parquet schema, with the fingerprint of all stages.
        root: directory of the corpus, where the bytes of shards are cached.
        folder: where to write, relative to the corpus: a path with a trailing slash, or "".
        cut: the shards of inputs that the stage `inputs` has cut.
    """

    name = "documents"
    title = "reading"

    def __init__(self, plan: ReadPlan, metadata: dict[str, str], root: Path, folder: str, cut: CutInputs) -> None:
        self._plan, self._metadata, self._root, self._folder, self._cut = plan, metadata, root, folder, cut

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without what only `tasks` needs."""
        return {name: value for name, value in self.__dict__.items() if name != "_cut"}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: inputs, steps and libraries."""
        return self._plan.fields

    def total(self) -> int:
        """Return the size of all inputs in bytes; 0 if an input is a pipe or is read in part."""
        if any(source.shards for source in self._plan.config.sources):
            return 0
        sizes = [file.size for files in self._plan.inputs for file in files]
        return sum(sizes) if all(sizes) else 0

    def tasks(self) -> Iterator[Task]:
        """Yield one task per shard, or per group of small shards. A group counts as one for `Source.shards`."""
        self._plan.expect_inputs()  # another stage may have closed its readers since the steps were made
        for index, source in enumerate(self._plan.config.sources):
            for number, group in enumerate(islice(group_shards(self._shards(index)), source.shards or None)):
                name, digest = f"{task_id_prefix(index, source)}{number:06d}", digest_group(group)
                yield Task(name, (index, self._cache(name, group)), sum(each.shard.weight for each in group), digest)

    def _cache(self, task: str, group: list[PlannedShard]) -> list[PlannedShard]:
        """Return the shards of a task without their bytes, which are written to the disk."""
        named = [(f"{task}-{number:04d}", each) for number, each in enumerate(group)]
        return [without_data(each.shard, self._root, name) if each.shard.data else each for name, each in named]

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        """Return the cached shards that the task reads."""
        return [(output, [task.id]) for output in cached_outputs(task.payload[1])]

    def _shards(self, source: int) -> Iterator[PlannedShard]:
        """Yield all shards of a source, with a short name that is unique among its files as the hint `name`."""
        reader, files = self._plan.steps.readers[source], self._plan.inputs[source]
        short = short_names([file.path for file in files])
        for number, file in enumerate(files):
            cut = self._cut.shards(source, number, file)
            for planned in map(PlannedShard, reader.shards(file.path)) if cut is None else cut:
                hints = planned.shard.hints | {"name": short[file.path]}
                shard = msgspec.structs.replace(planned.shard, hints=hints)
                yield msgspec.structs.replace(planned, shard=shard)
            refuse_changed(file)

    def run(self, task: Task, root: Path) -> Result:
        """Convert the shards of a task to a file of documents, one of rejects, and one of hashes."""
        index, group = task.payload
        steps = self._plan.steps
        reader, processor, found = steps.readers[index], steps.processor(index), list[Occurrence]()
        writers = self._hash_writers(index)
        with open_task_output(
            root, self._folder, f"{self.name}/{task.id}", steps.segmenter, self._metadata, writers
        ) as task_output:
            for planned in group:
                shard = load_shard(planned, reader, root)
                items = processor.process(reader.read(shard, self._plan.config.sources[index].name))
                for item in self._decontaminated(items, processor.tally, found):
                    task_output.add(item)
            self._refuse_changed(index, group)
        if isinstance(ranks := writers.get(RANKS), RankWriter) and ranks.without_score:
            task_output.counts["dedup.near.without_score"] = ranks.without_score
        task_output.outputs += write_occurrences(root, f"{STATE}/{FINDINGS}/{task.id}", found)
        task_output.counts.update(processor.tally)
        if (source := self._plan.config.sources[index]).shards:
            task_output.counts[f"source.{source.name}.bytes_read"] = task.weight
        for kind, step in steps.of_source(index):
            task_output.counts.update(take_tally(kind, step))
        return task_output.result()

    def _decontaminated(
        self, items: Iterator[Document | Reject], tally: Tally, found: list[Occurrence]
    ) -> Iterator[Document | Reject]:
        if self._plan.decontaminator is None:
            return items
        return measure_changed(self._plan.decontaminator.apply(items, tally, found), self._plan.steps.signals)

    def _hash_writers(self, source: int) -> dict[str, HashWriter]:
        """Return what collects the hashes of one task of a source, by the name of the folder for their file."""
        dedup, writers = self._plan.config.dedup, dict[str, HashWriter]()
        if dedup.documents or self._plan.line_min_chars:
            line_min_chars = 0 if self._plan.config.sources[source].as_is else self._plan.line_min_chars
            parts = sentences_of if dedup.sentences else lines_of
            writers[HASHES] = DocumentHashWriter(dedup.documents, line_min_chars, parts)
        if dedup.near:
            writers[BAND_KEYS] = BandKeyWriter(dedup.near)
            writers |= {} if dedup.near.keep == "first" else {RANKS: RankWriter(dedup.near.score)}
        return writers

    def _refuse_changed(self, source: int, group: list[PlannedShard]) -> None:
        """Check that the inputs of a task have not changed since they were hashed, before its outputs are committed."""
        paths = {planned.shard.path for planned in group}
        for file in self._plan.inputs[source]:
            if file.path in paths:
                refuse_changed(file)

    def close(self) -> None:
        """Close the steps of this process."""
        self._plan.close()
