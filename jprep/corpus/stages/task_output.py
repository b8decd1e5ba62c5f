"""Output of one task: documents and rejects, segmented, counted and written together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from jprep.corpus.dedup.hashes import DocumentHashWriter, RankWriter
from jprep.corpus.dedup.near.signatures import BandKeyWriter
from jprep.corpus.document import SENTENCE, WORD, Document, Reject, Tally, count_paragraphs
from jprep.corpus.processing import segment_documents
from jprep.corpus.step import Segmenter
from jprep.corpus.store import DOCUMENTS, DOCUMENTS_SUFFIX, REJECTS, REJECTS_SUFFIX, RowWriter, row_writer
from jprep.engine.stage import Output, Result

HashWriter = DocumentHashWriter | BandKeyWriter | RankWriter

_BATCH = 500_000  # characters segmented and written at a time


class TaskOutput:
    """Segments, counts and writes the documents and rejects of one task; see `open_task_output`.

    Attributes:
        counts: counts of the task; the corpus totals begin with `total.`.
        rejects: number of rejects by `step/reason`.
        outputs: the written files, set at the end of the `open_task_output` block.
    """

    def __init__(
        self, documents: RowWriter, rejects: RowWriter, segmenter: Segmenter, hashes: Mapping[str, HashWriter]
    ) -> None:
        self._documents, self._reject_rows, self._segmenter, self._hashes = documents, rejects, segmenter, hashes
        self._batch: list[Document] = []
        self._size = 0
        self.counts: Tally = Tally()
        self.rejects: Tally = Tally()
        self.outputs: list[Output] = []

    def add(self, item: Document | Reject) -> None:
        """Add a document or a reject."""
        if isinstance(item, Reject):
            self.rejects[f"{item.step}/{item.reason}"] += 1
            self._reject_rows.add([item])
            return
        self._batch.append(item)
        self._size += len(item.text)
        if self._size >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Segment, count and write the added documents."""
        segment_documents(self._batch, self._segmenter)
        for doc in self._batch:
            _measure(doc, self.counts, segmented=self._segmenter.marks)
            for hashes in self._hashes.values():
                hashes.add(doc)
        self._documents.add(self._batch)
        self._batch, self._size = [], 0

    def result(self) -> Result:
        """Return the result of the task. Call it after the block."""
        return Result(self.outputs, self.counts, self.rejects)


@contextlib.contextmanager
def open_task_output(
    root: Path,
    folder: str,
    name: str,
    segmenter: Segmenter,
    metadata: Mapping[str, str],
    hashes: Mapping[str, HashWriter] = MappingProxyType({}),
) -> Iterator[TaskOutput]:
    """Open the output files of a task. They are committed at the end of the block.

    Args:
        root: directory of the corpus.
        folder: where to write documents and hashes: a path relative to `root` with a trailing slash, or "" for their
            final place. Rejects are written to their final place in any case.
        name: `STAGE/TASK`; gives the names of the files.
        segmenter: marks words.
        metadata: metadata of the Parquet schema.
        hashes: collect hashes of the documents for deduplication, by the name of the folder for their file.
    """
    stage, _, task = name.partition("/")
    with (
        row_writer(root, f"{folder}{DOCUMENTS}/{task}{DOCUMENTS_SUFFIX}", Document, metadata) as documents,
        row_writer(root, f"{REJECTS}/{stage}-{task}{REJECTS_SUFFIX}", Reject, metadata) as rejects,
    ):
        task_output = TaskOutput(documents, rejects, segmenter, hashes)
        yield task_output
        task_output.flush()
    hash_files = [writer.commit(root, f"{folder}{name}/{task}") for name, writer in hashes.items()]
    task_output.outputs = [output for output in (documents.output, rejects.output, *hash_files) if output]


def _measure(doc: Document, counts: Tally, *, segmented: bool) -> None:
    """Add a document to the totals of the corpus."""
    paragraphs, breaks = count_paragraphs(doc.text), doc.words.count(SENTENCE)
    counts["total.documents"] += 1
    counts["total.paragraphs"] += paragraphs
    counts["total.sentences"] += paragraphs + breaks
    if segmented:
        counts["total.words"] += doc.words.count(WORD) + paragraphs + breaks
    counts["total.characters"] += len(doc.text)
    counts["total.bytes"] += len(doc.text.encode())
