"""The stage after deduplication: remove duplicates, segment the remaining text, write the final shards."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from jprep.corpus.config import StepRef, make_step
from jprep.corpus.dedup.exact import ShardDrops, drops_for_shard
from jprep.corpus.dedup.near.clusters import Membership, members_of_shard
from jprep.corpus.document import Document, Reject, Tally
from jprep.corpus.processing import (
    drop_lines,
    drop_sentences,
    measure_changed,
    refuse_changed_step_file,
    refuse_changed_steps,
    reject,
    take_tally,
)
from jprep.corpus.signals.columns import signal_hash
from jprep.corpus.signals.per_line import make_signals
from jprep.corpus.stages.task_output import open_task_output
from jprep.corpus.step import Segmenter, Signal, describe_step
from jprep.corpus.store import DOCUMENTS, TOTALS_PREFIX, read_rows
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import atomic_path
from jprep.io.verified_files import RUN_AGAIN, verify_file
from jprep.plugins.files import PROVENANCE

_CHARACTERS = f"{TOTALS_PREFIX}characters"


class ClusterFile(NamedTuple):
    """The clusters of near-duplicates.

    Attributes:
        file: the output of `NearClusters`, which the caller verifies.
        drop: whether all but one document of each cluster are dropped.
    """

    file: Output
    drop: bool


class RecipeSignals(NamedTuple):
    """The signals of a recipe.

    Attributes:
        of_documents: those of documents.
        of_lines: those of lines.
        described: how the fingerprint describes them all.
    """

    of_documents: Sequence[StepRef] = ()
    of_lines: Sequence[StepRef] = ()
    described: Sequence[dict[str, Any]] = ()


class SegmentStage(Stage):
    """Removes duplicates and marks words.

    Args:
        read: receipts of the read stage.
        drops: outputs of the dedup stage. The caller verifies them, since every task reads a part of each.
        segmenter: the segmenter of the recipe.
        made_from: fingerprint fields: the fingerprint of the read stage and the description of the segmenter.
        metadata: metadata of the Parquet schema.
        near: the clusters of near-duplicates; None if they were not looked for.
        signals: measured again of documents that lose lines.
        sentences: whether sentences are dropped, in place of lines.
    """

    name = "words"
    title = "segmenting"

    def __init__(
        self,
        read: list[Receipt],
        drops: list[Output],
        segmenter: StepRef,
        made_from: dict[str, Any],
        metadata: dict[str, str],
        near: ClusterFile | None,
        signals: RecipeSignals,
        *,
        sentences: bool = False,
    ) -> None:
        self._near, self._recipe_signals, self._sentences = near, signals, sentences
        self._read, self._drops, self._segmenter, self._made_from = read, drops, segmenter, made_from
        self._metadata = metadata

    @cached_property
    def _step(self) -> Segmenter:
        step: Segmenter = make_step("segmenter", self._segmenter)
        refuse_changed_step_file(step, self._made_from["segmenter"]["provenance"].get(PROVENANCE, ""))
        return step

    @cached_property
    def _signals(self) -> list[Signal]:
        recipe = self._recipe_signals
        signals = make_signals(recipe.of_documents, recipe.of_lines)
        refuse_changed_steps(signals, [signal_hash(each) for each in recipe.described])
        return signals

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the steps, which each process opens, and the receipts, which tasks are made from."""
        own = ("_step", "_signals", "_read")
        return {name: value for name, value in self.__dict__.items() if name not in own}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the documents and the segmenter."""
        return self._made_from

    def total(self) -> int:
        """Return the number of characters of all documents."""
        return sum(receipt.counts.get(_CHARACTERS, 0) for receipt in self._read)

    def tasks(self) -> Iterator[Task]:
        """Yield one task per file of documents, the largest first: then workers finish at about the same time."""
        for shard, receipt in sorted(enumerate(self._read), key=lambda each: -each[1].counts.get(_CHARACTERS, 0)):
            for output in receipt.outputs:
                if output.folder == DOCUMENTS:
                    payload = (shard, output, receipt.counts)
                    yield Task(receipt.task, payload, receipt.counts[_CHARACTERS], output.sha256)

    def consumes(self, task: Task) -> list[tuple[Output, list[str]]]:
        """Return the documents that the task rewrites."""
        return [(task.payload[1], [task.id])]

    def run(self, task: Task, root: Path) -> Result:
        """Rewrite a file of documents without duplicates and with words."""
        shard, output, counts = task.payload
        drops = drops_for_shard(shard, root, self._drops)
        members = members_of_shard(shard, root, self._near.file) if self._near else {}
        if not drops and not members and not self._step.marks:
            verify_file(root / output.path, output.sha256)
            return _link_unchanged(root, output, counts)
        with open_task_output(root, "", f"{self.name}/{task.id}", self._step, self._metadata) as task_output:
            items = (
                self._deduplicated(doc, row, drops, members.get(row), task_output.counts)
                for row, doc in enumerate(read_rows(root, output, Document, fix=RUN_AGAIN))
            )
            for item in measure_changed(items, self._signals if drops.lines else ()):
                task_output.add(item)
        task_output.counts.update(take_tally("segmenter", self._step))
        return task_output.result()

    def _deduplicated(
        self, doc: Document, row: int, drops: ShardDrops, member: Membership | None, counts: Tally
    ) -> Document | Reject:
        """Return a document without repeated lines or sentences and with its cluster, or as a reject."""
        if row in drops.documents:
            return reject(doc, "dedup.documents", "duplicate")
        if member and self._near and self._near.drop and not member.keep:
            return reject(doc, "dedup.near", "near_duplicate")
        if member:
            doc.meta = doc.meta | {"near_cluster": member.cluster, "near_size": str(member.size)}
        drop, name = (drop_sentences, "dedup.sentences") if self._sentences else (drop_lines, "dedup.lines")
        if row in drops.lines:
            drop(doc, drops.lines[row], name, counts)
        return doc if doc.text else reject(doc, name, "empty")

    def close(self) -> None:
        """Close the steps of this process."""
        for step in (self.__dict__.pop("_step", None), *self.__dict__.pop("_signals", ())):
            if step:
                step.close()


def describe_segmenter(ref: StepRef) -> dict[str, Any]:
    """Return the description of a segmenter for the manifest.

    Raises:
        MachineError: the segmenter is not installed.
    """
    step = make_step("segmenter", ref)
    try:
        return describe_step(step)
    finally:
        step.close()


def _link_unchanged(root: Path, output: Output, counts: dict[str, int]) -> Result:
    """Put a file that needs no change in its final place: as a hard link if possible, else as a copy."""
    path = f"{DOCUMENTS}/{Path(output.path).name}"
    with atomic_path(root / path) as temporary:
        try:
            os.link(root / output.path, temporary)
        except OSError:
            shutil.copyfile(root / output.path, temporary)
    totals = {name: count for name, count in counts.items() if name.startswith(TOTALS_PREFIX)}
    return Result([Output(path, output.rows, output.sha256)], totals)
