"""Tell the documents of a row apart, so that their tokens do not see each other. `docs/sampling.md` has the rules."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from jprep.dataset.sampling.masking import IGNORE_INDEX, Ids

NO_DOCUMENT = -1
"""The document of padding."""

Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Rows and columns."""


def number_documents(ids: Ids, end: int, sizes: npt.NDArray[np.int64], before: int, after: int, pieces: Places) -> Ids:
    """Return the number of the document that each token is part of, from 0 in each row, int32, (rows, length).

    A document begins with each piece of a row and after each end token. Special tokens around a row are part of its
    first and its last document.

    Args:
        ids: rows with special tokens and padding, (rows, length).
        end: the id that ends documents.
        sizes: tokens of text of each row, (rows,).
        before: special tokens before the text of each row.
        after: special tokens after the text.
        pieces: where the pieces of the text begin.
    """
    columns, stops = np.arange(ids.shape[1]), before + sizes.reshape(-1, 1)
    begins = np.zeros(ids.shape, np.bool_)
    begins[:, 1:] = ids[:, :-1] == end
    begins[pieces] = True
    begins &= (columns >= before) & (columns < stops)
    numbers = np.maximum(np.cumsum(begins, axis=1) - 1, 0)
    return np.where(columns < stops + after, numbers, NO_DOCUMENT).astype(np.int32)


def drop_first_labels(labels: Ids, documents: Ids) -> None:
    """Remove, in place, the labels of causal models at first tokens of documents: nothing before predicts them."""
    labels[:, 1:][documents[:, 1:] != documents[:, :-1]] = IGNORE_INDEX
