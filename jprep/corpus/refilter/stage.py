"""The stage that filters the documents of a finished corpus."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

from jprep.corpus.document import Document
from jprep.corpus.processing import document_batches, filter_batch, refuse_changed_steps, take_tally
from jprep.corpus.refilter.request import FilterRequest, RefilterSteps
from jprep.corpus.segmenters.none import NoSegmenter
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.stages.read import source_index
from jprep.corpus.stages.task_output import open_task_output
from jprep.corpus.store import DOCUMENTS, Manifest, read_rows, rebuild_fix
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.io.atomic import atomic_path
from jprep.io.verified_files import verify_file


class _KeepWords(NoSegmenter):
    """Leaves words as they are, and has them counted."""

    marks = True


class RefilterStage(Stage):
    """Filters the documents of a corpus, and copies its rejects and its lists of test items.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        request: what to filter by.
        label: names the files of rejects; a corpus that was filtered before has others.

    Attributes:
        made_from: the fingerprint fields; see `jprep.corpus.refilter.run`.
        metadata: metadata of the Parquet schema.
    """

    name = "filtered"
    title = "filtering"

    def __init__(self, folder: Path, manifest: Manifest, request: FilterRequest, label: str) -> None:
        self._folder, self._manifest, self._request, self._label = folder, manifest, request, label
        self.made_from: dict[str, Any] = {}
        self.metadata: dict[str, str] = {}
        self._step_hashes: list[str] = []

    @cached_property
    def steps(self) -> RefilterSteps:
        """The steps of this process."""
        steps = RefilterSteps(self._request, self._manifest)
        self._step_hashes = refuse_changed_steps(steps.all(), self._step_hashes)
        return steps

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the steps: each process makes its own."""
        return {name: value for name, value in self.__dict__.items() if name != "steps"}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the corpus and the steps."""
        return self.made_from

    def total(self) -> int:
        """Return the number of documents."""
        return sum(part.rows for part in self._manifest.parts)

    def tasks(self) -> Iterator[Task]:
        """Yield one task per file of documents, then one per file that is copied."""
        for part in self._manifest.parts:
            yield Task(Path(part.path).stem, part, part.rows, part.sha256)
        for part in (*self._manifest.reject_parts, *self._manifest.test_items):
            yield Task(f"{part.folder}-{Path(part.path).stem}", part, 0, part.sha256)

    def run(self, task: Task, root: Path) -> Result:
        """Filter a file of documents, or copy another file."""
        part: Output = task.payload
        return self._filter(part, root, task.id) if part.folder == DOCUMENTS else self._copy(part, root)

    def _copy(self, part: Output, root: Path) -> Result:
        source = verify_file(self._folder / part.path, part.sha256, rebuild_fix(self._folder))
        with atomic_path(root / part.path) as temporary:
            shutil.copyfile(source, temporary)
        return Result([part])

    def _filter(self, part: Output, root: Path, task: str) -> Result:
        segmenter = NoSegmenter() if self._manifest.segmenter is None else _KeepWords()
        filters = self.steps.filters(self._manifest.sources[source_index(part)]["name"])
        with open_task_output(root, "", f"{self._label}/{task}", segmenter, self.metadata) as task_output:
            for items in document_batches(read_rows(self._folder, part, Document)):
                batch = TextBatch([item for item in items if isinstance(item, Document)])
                self.steps.provide(batch)
                for item in filter_batch(batch, filters, self.steps.signals, task_output.counts):
                    task_output.add(item)
        for kind, step in [*(("filter", each) for each in filters), *(("signal", each) for each in self.steps.signals)]:
            task_output.counts.update(take_tally(kind, step))
        return task_output.result()

    def close(self) -> None:
        """Close the steps of this process."""
        if steps := self.__dict__.pop("steps", None):
            steps.close()
