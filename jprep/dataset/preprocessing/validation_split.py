"""Assign documents to the training or the validation split."""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from jprep.corpus.document import Document
from jprep.corpus.store import Manifest
from jprep.dataset.manifest import TRAIN, VALIDATION

_HASHES = 1 << 64


class ValidationSplit:
    """Assigns documents to splits by a hash, independent of their position in the corpus.

    The hash is of a document's id. In a source whose ids are not unique it is of id and text; otherwise all documents
    that share an id would go to one split.

    Args:
        share: share of the documents in the validation split.
        by_text: names of the sources whose ids are not unique.

    Attributes:
        by_text: as given, sorted.
        columns: columns of a document that are needed.
    """

    def __init__(self, share: float, by_text: Iterable[str] = ()) -> None:
        self._share, self.by_text = share, sorted(by_text)
        self.columns = ["id", "source", "text"] if self.by_text else ["id"]

    @classmethod
    def of_corpus(cls, share: float, corpus: Manifest) -> ValidationSplit:
        """Return the assignment for a corpus."""
        return cls(share, (source["name"] for source in corpus.sources if source.get("repeated_ids")))

    def split_of(self, document: Document) -> str:
        """Return the split of a document that has these columns."""
        return self.split_by(document.id, document.source, document.text)

    def split_by(self, identity: str, source: str = "", text: str = "") -> str:
        """Return the split of a document with these column values."""
        return split_of_key(f"{identity}\n{text}" if source in self.by_text else identity, self._share)


def split_of_key(key: str, share: float) -> str:
    """Return the split for a key, usually a document's id. It depends on key and share only."""
    return VALIDATION if xxhash.xxh3_64_intdigest(key.encode()) < share * _HASHES else TRAIN
