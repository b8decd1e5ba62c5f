"""Verdicts on many documents at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from jprep.corpus.document import KEEP, Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray


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
