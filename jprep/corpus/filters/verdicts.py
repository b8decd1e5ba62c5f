"""Verdicts on many documents at once."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.document import KEEP, Document, Verdict
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.step import Filter

if TYPE_CHECKING:
    from numpy.typing import NDArray


class BatchFilter(Filter):
    """Judges and measures batches, and a single document as a batch of one."""

    @abstractmethod
    def judge_all(self, batch: TextBatch) -> list[Verdict]:
        """Return the verdict on each document of a batch."""

    def judge(self, doc: Document) -> Verdict:
        """Return the verdict on a document."""
        return self.judge_all(TextBatch([doc]))[0]

    @abstractmethod
    def measure_all(self, batch: TextBatch) -> Sequence[Mapping[str, float]]:
        """Return the measures of each document of a batch."""

    def measure(self, doc: Document) -> Mapping[str, float]:
        """Return the measures of a document."""
        return self.measure_all(TextBatch([doc]))[0]


def verdicts(documents: int, *dropped: tuple[NDArray[np.bool_], str]) -> list[Verdict]:
    """Return the verdict on each document.

    Args:
        documents: number of documents.
        dropped: which documents are dropped, shape [documents], and the reason; the first that is true counts.
    """
    found = [KEEP] * documents
    for mask, reason in reversed(dropped):
        verdict = Verdict(False, reason)
        for index in np.flatnonzero(mask).tolist():
            found[index] = verdict
    return found


def add_dropped_lines(found: list[Verdict], batch: TextBatch, dropped: NDArray[np.bool_], reason: str) -> None:
    """Change the verdicts on documents that are kept, so that some of their lines are dropped.

    Args:
        found: the verdict on each document of the batch.
        batch: the documents.
        dropped: which lines of the batch are dropped, shape [lines].
        reason: why.
    """
    ends = np.append(batch.first_lines[1:], len(dropped))
    for index in np.unique(batch.line_docs[dropped]).tolist():
        if found[index].keep:
            own = dropped[batch.first_lines[index] : ends[index]]
            found[index] = Verdict(True, reason, tuple(np.flatnonzero(own).tolist()))
