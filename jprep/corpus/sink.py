"""Where a task's documents and rejects go: segmented, counted, written, committed together."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from jprep.corpus.dedup.hashes import HASHES, HashWriter
from jprep.corpus.document import SENTENCE, WORD, Document, Reject, Tally
from jprep.corpus.processing import segment_documents
from jprep.corpus.step import Segmenter
from jprep.corpus.store import DOCUMENTS, DOCUMENTS_SUFFIX, REJECTS, REJECTS_SUFFIX, Written, row_writer
from jprep.engine.stage import Output, Result

_BATCH = 500_000  # characters segmented and written at a time


class Sink:
    """Takes what one task makes of its input; see `sink`."""

    def __init__(self, kept: Written, refused: Written, segmenter: Segmenter, hashes: HashWriter | None) -> None:
        self._kept, self._refused, self._segmenter, self._hashes = kept, refused, segmenter, hashes
        self._batch: list[Document] = []
        self._size = 0
        self.counts: Tally = Tally()
        self.rejects: Tally = Tally()
        self.outputs: list[Output] = []

    def take(self, item: Document | Reject) -> None:
        """Take a document or a reject."""
        if isinstance(item, Reject):
            self.rejects[f"{item.step}/{item.reason}"] += 1
            self._refused.add([item])
            return
        self._batch.append(item)
        self._size += len(item.text)
        if self._size >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Segment, measure and write the documents that were taken."""
        segment_documents(self._batch, self._segmenter)
        for doc in self._batch:
            _measure(doc, self.counts, segmented=self._segmenter.marks)
            if self._hashes:
                self._hashes.add(doc)
        self._kept.add(self._batch)
        self._batch, self._size = [], 0

    def result(self) -> Result:
        """What was done and committed; after the block."""
        return Result(self.outputs, self.counts, self.rejects)


@contextlib.contextmanager
def sink(
    root: Path,
    folder: str,
    name: str,
    segmenter: Segmenter,
    about: Mapping[str, str],
    hashes: HashWriter | None = None,
) -> Iterator[Sink]:
    """Open a task's files; they are committed at the end of the block.

    Args:
        root: the corpus's folder.
        folder: where documents and hashes go, relative to it, with a slash at its end; "" for their lasting place.
            Rejects go to theirs at once.
        name: the stage's and the task's, `STAGE/TASK`; it names the files.
        segmenter: marks words.
        about: metadata of the files of documents and rejects.
        hashes: notes each document for deduplication, or None.
    """
    stage, _, task = name.partition("/")
    with (
        row_writer(root, f"{folder}{DOCUMENTS}/{task}{DOCUMENTS_SUFFIX}", Document, about) as kept,
        row_writer(root, f"{REJECTS}/{stage}-{task}{REJECTS_SUFFIX}", Reject, about) as refused,
    ):
        taken = Sink(kept, refused, segmenter, hashes)
        yield taken
        taken.flush()
    noted = hashes.commit(root, f"{folder}{HASHES}/{task}") if hashes else None
    taken.outputs = [output for output in (kept.output, refused.output, noted) if output]


def _measure(doc: Document, counts: Tally, *, segmented: bool) -> None:
    """Add a document to the corpus's totals."""
    paragraphs, breaks = doc.text.count("\n") + 1, doc.words.count(SENTENCE)
    counts["total.documents"] += 1
    counts["total.paragraphs"] += paragraphs
    counts["total.sentences"] += paragraphs + breaks
    if segmented:
        counts["total.words"] += doc.words.count(WORD) + paragraphs + breaks
    counts["total.characters"] += len(doc.text)
    counts["total.bytes"] += len(doc.text.encode())
