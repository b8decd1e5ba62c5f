"""The stage behind deduplication: what stays is segmented and written to its lasting place."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from jprep.corpus.config import StepRef, make_step
from jprep.corpus.dedup.exact import drops_of
from jprep.corpus.document import Document
from jprep.corpus.processing import describe_step, drop_lines, reject, take_tally
from jprep.corpus.sink import sink
from jprep.corpus.step import Segmenter
from jprep.corpus.store import DOCUMENTS, TOTAL, read_rows
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import atomic_path
from jprep.io.verified_files import RUN_AGAIN, verify_file


class WordsStage(Stage):
    """Takes out duplicates and marks words.

    Args:
        read: the documents stage's receipts.
        drops: the dedup stage's outputs. The caller verifies them: every task reads a part of each.
        segmenter: the recipe's.
        made_from: what the output depends on: the documents stage's fingerprint, and the segmenter's description.
        about: metadata of the files.
    """

    name = "words"

    def __init__(
        self,
        read: list[Receipt],
        drops: list[Output],
        segmenter: StepRef,
        made_from: dict[str, Any],
        about: dict[str, str],
    ) -> None:
        self._read, self._drops, self._segmenter, self._made_from = read, drops, segmenter, made_from
        self._about = about

    @cached_property
    def _step(self) -> Segmenter:
        step: Segmenter = make_step("segmenter", self._segmenter)
        return step

    def __getstate__(self) -> dict[str, Any]:
        """Another process opens its own segmenter."""
        return {name: value for name, value in self.__dict__.items() if name != "_step"}

    def fields(self) -> dict[str, Any]:
        """The documents it works on, and the segmenter."""
        return self._made_from

    def total(self) -> int:
        """Characters of all documents."""
        return sum(receipt.counts.get("total.characters", 0) for receipt in self._read)

    def tasks(self) -> Iterator[Task]:
        """A task for each file of documents."""
        for shard, receipt in enumerate(self._read):
            for output in receipt.outputs:
                if output.folder == DOCUMENTS:
                    payload = (shard, output, receipt.counts)
                    yield Task(receipt.task, payload, receipt.counts["total.characters"], output.sha256)

    def run(self, task: Task, root: Path) -> Result:
        """Rewrite a file of documents without its duplicates, and with its words."""
        shard, output, counts = task.payload
        drops = drops_of(shard, root, self._drops)
        if not drops and not self._step.marks:
            verify_file(root / output.path, output.sha256)
            return _as_it_is(root, output, counts)
        with sink(root, "", f"{self.name}/{task.id}", self._step, self._about) as taken:
            for row, doc in enumerate(read_rows(root, output, Document, fix=RUN_AGAIN)):
                if row in drops.documents:
                    taken.take(reject(doc, "dedup.documents", "duplicate"))
                    continue
                if row in drops.lines:
                    drop_lines(doc, drops.lines[row], "dedup.lines", taken.counts)
                taken.take(doc if doc.text else reject(doc, "dedup.lines", "empty"))
        taken.counts.update(dict(take_tally("segmenter", self._step)))
        return taken.result()

    def close(self) -> None:
        """Close the segmenter of this process."""
        if step := self.__dict__.pop("_step", None):
            step.close()


def describe_segmenter(ref: StepRef) -> dict[str, Any]:
    """What a corpus's manifest says of its segmenter; an error if it is not installed."""
    step = make_step("segmenter", ref)
    try:
        return describe_step(step)
    finally:
        step.close()


def _as_it_is(root: Path, output: Output, counts: dict[str, int]) -> Result:
    """Give a file that needs no change its lasting place, without writing it again where the file system can."""
    path = f"{DOCUMENTS}/{Path(output.path).name}"
    with atomic_path(root / path) as temporary:
        try:
            os.link(root / output.path, temporary)
        except OSError:
            shutil.copyfile(root / output.path, temporary)
    totals = {name: count for name, count in counts.items() if name.startswith(TOTAL)}
    return Result([Output(path, output.rows, output.sha256)], totals)
