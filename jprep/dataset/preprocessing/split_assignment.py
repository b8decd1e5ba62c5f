"""Assign documents to the training, the validation or the test split."""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from jprep.corpus.document import Document
from jprep.corpus.store import Manifest
from jprep.dataset.manifest import TEST, TRAIN, VALIDATION, HeldOut, held_out_sources

_HASHES = 1 << 64


class SplitAssignment:
    """Assigns documents to splits, independent of their position in the corpus: by their source, or by a hash.

    The hash is of a document's id. In a source whose ids are not unique it is of id and text; otherwise all documents
    that share an id would go to one split.

    Args:
        validation: share of the documents in the validation split, or the names of its sources.
        test: the same for the test split.
        by_text: names of the sources whose ids are not unique.

    Attributes:
        by_text: as given, sorted.
        columns: columns of a document that are needed.
    """

    def __init__(self, validation: HeldOut, test: HeldOut = 0.0, by_text: Iterable[str] = ()) -> None:
        self.by_text = sorted(by_text)
        self._sources = {
            source: split
            for split, held_out in ((VALIDATION, validation), (TEST, test))
            for source in held_out_sources(held_out)
        }
        self._validation, self._test = (0.0 if isinstance(one, list) else one for one in (validation, test))
        self.columns = ["id", "source", "text"] if self.by_text else ["id", "source"] if self._sources else ["id"]

    @classmethod
    def of_corpus(cls, validation: HeldOut, test: HeldOut, corpus: Manifest) -> SplitAssignment:
        """Return the assignment for a corpus."""
        repeated = (source["name"] for source in corpus.sources if source.get("repeated_ids"))
        return cls(validation, test, repeated)

    def split_of(self, document: Document) -> str:
        """Return the split of a document that has these columns."""
        return self.split_by(document.id, document.source, document.text)

    def split_by(self, identity: str, source: str = "", text: str = "") -> str:
        """Return the split of a document with these column values."""
        if source in self._sources:
            return self._sources[source]
        key = f"{identity}\n{text}" if source in self.by_text else identity
        return split_of_key(key, self._validation, self._test)


def split_of_key(key: str, validation: float, test: float = 0.0) -> str:
    """Return the split for a key, usually a document's id. It depends on key and shares only."""
    number = xxhash.xxh3_64_intdigest(key.encode())
    if number < validation * _HASHES:
        return VALIDATION
    return TEST if number < (validation + test) * _HASHES else TRAIN
