"""Assign documents to the parts of a mixture, by the columns of their corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from jprep.corpus.api import Corpus
from jprep.corpus.signals.lookup import find_signal
from jprep.dataset.mix import WHERE
from jprep.dataset.mix_parts import MixPart
from jprep.errors import ConfigError

NO_PART = -1
"""The number of a document that no part takes: in a list of parts, the entry behind them."""

_SIZE = "near_size"  # key of `meta`


class PartAssignment:
    """Gives each document to the first part that takes it.

    Args:
        parts: the parts, in order.

    Attributes:
        columns: columns of the corpus that are needed.
    """

    def __init__(self, parts: Sequence[MixPart]) -> None:
        self._parts = parts
        signals = dict.fromkeys(limits.signal for part in parts for limits in part.where)
        self._by_size = any(part.cluster_size for part in parts)
        self.columns = ["source", *(f"signals.{name}" for name in signals), *(["meta"] if self._by_size else [])]

    def __len__(self) -> int:
        return len(self._parts)

    def parts_of(self, batch: Any) -> npt.NDArray[np.int64]:
        """Return the number of the part of each document of a record batch with these columns, (rows,).

        It is `NO_PART` for documents that no part takes.
        """
        found = np.full(batch.num_rows, NO_PART, np.int64)
        sizes = _cluster_sizes(batch["meta"]) if self._by_size else np.zeros(0, np.int64)
        for number, part in enumerate(self._parts):
            takes = found == NO_PART
            if part.source:
                takes &= _equal(batch["source"], part.source)
            for limits in part.where:
                takes &= ~limits.outside(batch["signals"].field(limits.signal).to_numpy(zero_copy_only=False))
            if size := part.cluster_size:
                takes &= (sizes >= size.min) & (size.max is None or sizes <= size.max)
            found[takes] = number
        return found


def _equal(column: Any, value: str) -> npt.NDArray[np.bool_]:
    import pyarrow.compute as pc

    found: npt.NDArray[np.bool_] = pc.equal(column, value).to_numpy(zero_copy_only=False)
    return found


def _cluster_sizes(meta: Any) -> npt.NDArray[np.int64]:
    """Return the size of each document's cluster from its `meta`, a list of pairs. Corpora of format 1 have no sizes."""
    import pyarrow.compute as pc

    sizes = np.ones(len(meta), np.int64)
    keys, values = map(meta.flatten().field, ("key", "value"))
    own = pc.equal(keys, _SIZE).to_numpy(zero_copy_only=False)
    documents = pc.list_parent_indices(meta).to_numpy(zero_copy_only=False)
    sizes[documents[own]] = [int(value) for value in values.filter(own).to_pylist()]
    return sizes


def check_corpus_columns(parts: Sequence[MixPart], corpus: Corpus) -> None:
    """Check that a corpus keeps what parts compare.

    Raises:
        ConfigError: it lacks the column of a signal, or clusters of near-duplicates.
    """
    where = f"{WHERE}, {corpus.folder}"
    for part in parts:
        for limits in part.where:
            if limits.signal not in corpus.manifest.signals:
                kept = ", ".join(corpus.manifest.signals) or "no signal"
                what = f"the part {part.name!r} compares {limits.signal}, which this corpus does not keep"
                raise ConfigError(f"{what}; it keeps {kept}", where=where, fix=_fix(limits.signal, corpus))
        if part.cluster_size and not _has_clusters(corpus):
            what = f"the part {part.name!r} compares the size of clusters of near-duplicates, and this corpus has none"
            fix = "build the corpus with near-duplicates: [corpus] dedup = { near = {} }"
            raise ConfigError(what, where=where, fix=fix)


def _fix(column: str, corpus: Corpus) -> str:
    """Return the command that adds a column to the corpus."""
    try:
        signal = find_signal(column, [], WHERE).name
    except ConfigError as error:
        return error.fix
    made = f"{corpus.folder}-with-{signal}"
    return f"`jprep corpus filter {corpus.folder} --signal {signal} -o {made}` adds it; then pack that corpus"


def _has_clusters(corpus: Corpus) -> bool:
    """Return whether the corpus was deduplicated by clusters."""
    dedup: dict[str, Any] = corpus.manifest.made_from["documents"].get("dedup", {})
    return "near" in dedup
