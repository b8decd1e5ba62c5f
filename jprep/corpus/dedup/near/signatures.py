"""MinHash signatures of documents, and the keys of their bands."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib.metadata import version
from typing import Any

import xxhash

from jprep.corpus.config import NearConfig
from jprep.corpus.dedup.hashes import HashFileWriter
from jprep.corpus.dedup.near.ngrams import comparable, mixed, ngram_hashes
from jprep.corpus.document import Document
from jprep.libraries import import_library

_SEED = 1  # of the permutations
_BATCH = 1 << 16  # characters hashed at a time: they stay in the processor's cache
_SHORT = -1
"""The band of the key of a document that has no n-gram."""


def describe_signatures() -> dict[str, Any]:
    """Return the fingerprint fields of signatures.

    Raises:
        MachineError: rensa is not installed.
    """
    minhash = _import_rensa().RMinHash
    return {"rensa": version("rensa"), "algorithm": minhash.ALGORITHM_VERSION, "hash": 1}


def signatures(texts: Sequence[Any], config: NearConfig) -> Any:
    """Return the MinHash signatures of some texts, as uint64 (texts, bands · rows).

    Args:
        texts: code points of each text, with at least one n-gram each.
        config: bands, rows and size of the n-grams.
    """
    import numpy as np

    if len(texts) == 1 and len(texts[0]) >= 2 * _BATCH:
        pieces = (texts[0][place : place + _BATCH] for place in range(0, len(texts[0]), _BATCH - config.ngram + 1))
        # The minimum over a text is the least of those over its pieces, each of which begins with the end of the last.
        return reduce(np.minimum, (signatures([piece], config) for piece in pieces if len(piece) >= config.ngram))
    hashes, starts = ngram_hashes(texts, config.ngram)
    minhash = _import_rensa().RMinHash
    digests = minhash.digest_matrix_from_flat_token_hashes(hashes, starts, config.bands * config.rows, _SEED)
    return np.array(digests.to_rows(), np.uint64)


def band_keys(digests: Any, config: NearConfig) -> tuple[Any, Any]:
    """Return the keys of all bands as two halves of 128 bits, each uint64 (texts, bands).

    Two documents are candidates if they have the same key for one band.
    """
    import numpy as np

    bands = digests.reshape(len(digests), config.bands, config.rows)
    numbers = np.arange(config.bands, dtype=np.uint64)
    halves = [np.broadcast_to(mixed(numbers + np.uint64(half)), bands.shape[:2]) for half in (1 << 20, 1 << 21)]
    for row in range(config.rows):
        halves = [mixed(half * np.uint64(2 * row + 3) + bands[:, :, row]) for half in halves]
    return halves[0], halves[1]


class BandKeyWriter(HashFileWriter):
    """Collects the band keys of the documents of one task.

    Args:
        config: how documents are compared.
    """

    def __init__(self, config: NearConfig) -> None:
        super().__init__()
        self._config, self._rows, self._size = config, 0, 0
        self._texts: list[Any] = []
        self._numbers: list[int] = []

    def add(self, doc: Document) -> None:
        """Add a document. Documents must be added in the order of their rows."""
        codes = comparable(doc.text)
        if len(codes) >= _BATCH:
            self.flush()  # a long text is hashed alone, piece by piece
        if len(codes) >= self._config.ngram:
            self._texts.append(codes)
            self._numbers.append(self._rows)
            self._size += len(codes)
        elif len(codes):
            self.add_hash(xxhash.xxh3_128_digest(codes.tobytes()), self._rows, _SHORT)
        self._rows += 1
        if self._size >= _BATCH:
            self.flush()

    def flush(self) -> None:
        """Hash the added documents."""
        if self._texts:
            high, low = band_keys(signatures(self._texts, self._config), self._config)
            self.add_hashes(high, low, self._numbers)
        self._texts, self._numbers, self._size = [], [], 0


def _import_rensa() -> Any:
    return import_library("rensa", "near-duplicates need rensa", "'jprep[near]'", "corpus.dedup.near")
