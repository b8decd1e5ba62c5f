"""Which documents are for training and which for validation."""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

from jprep.corpus.document import Document
from jprep.corpus.store import Manifest
from jprep.dataset.manifest import TRAIN, VALIDATION

_HASHES = 1 << 64


class ValidationSplit:
    """Assigns documents to splits by a hash, wherever they stand in the corpus.

    A document is known by its id; in a source whose ids are not unique, by its id and its text, or all that share an id
    would go to one split.

    Args:
        share: of the documents for validation.
        by_text: names of the sources whose ids are not unique.

    Attributes:
        by_text: as given, sorted.
        columns: what of a document has to be read.
    """

    def __init__(self, share: float, by_text: Iterable[str] = ()) -> None:
        self._share, self.by_text = share, sorted(by_text)
        self.columns = ["id", "source", "text"] if self.by_text else ["id"]

    @classmethod
    def of_corpus(cls, share: float, corpus: Manifest) -> ValidationSplit:
        """How the documents of a corpus are assigned."""
        return cls(share, (source["name"] for source in corpus.sources if source.get("repeated_ids")))

    def split_of(self, document: Document) -> str:
        """The split of a document that has these columns."""
        return self.split_by(document.id, document.source, document.text)

    def split_by(self, identity: str, source: str = "", text: str = "") -> str:
        """The split of a document with these values of the columns."""
        return split_of_key(f"{identity}\n{text}" if source in self.by_text else identity, self._share)


def split_of_key(key: str, share: float) -> str:
    """The split of what is known by a key, usually a document's id; it depends on nothing else but the share."""
    return VALIDATION if xxhash.xxh3_64_intdigest(key.encode()) < share * _HASHES else TRAIN
