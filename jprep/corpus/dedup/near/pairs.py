"""The stage that finds pairs of documents with an equal band key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jprep.corpus.dedup.hashes import BucketStage, hash_begins, write_records
from jprep.engine.stage import Output, Result, Task

PAIRS = "pairs"


def pair_type() -> Any:
    """Return the numpy type of a pair: the first document with a key, and another one."""
    import numpy as np

    return np.dtype([("shard", "<u4"), ("row", "<u4"), ("other_shard", "<u4"), ("other_row", "<u4")])


class NearPairs(BucketStage):
    """Compares the band keys written by the read stage.

    Args:
        keys: files of band keys, one per shard in the order of the corpus, or None for a shard without keys. The caller
            verifies them, since every task reads a part of each.
        folder: where to write, relative to the corpus, with a trailing slash.
        made_from: fingerprint of the read stage.
    """

    name = "near-pairs"
    title = "finding similar documents"

    def __init__(self, keys: list[Output | None], folder: str, made_from: str) -> None:
        super().__init__(keys)
        self._folder, self._made_from = folder, made_from

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the documents."""
        return {"documents": self._made_from}

    def run(self, task: Task, root: Path) -> Result:
        """Pair the first document of each key in one bucket with all others."""
        pairs = _pairs(*self._buckets.records(task.payload, root))
        path = f"{self._folder}{PAIRS}/{task.id}"
        return Result([write_records(root, path, pairs)])


def _pairs(records: Any, shards: Any) -> Any:
    """Return pairs of each key's first document with its other ones, sorted, each pair once."""
    import numpy as np

    order = np.lexsort((records["row"], shards, records["low"], records["high"]))
    records, shards = records[order], shards[order]
    first = hash_begins(records)
    leader = np.maximum.accumulate(np.where(first, np.arange(len(records)), 0))
    pairs = np.empty(int((~first).sum()), pair_type())
    pairs["shard"], pairs["row"] = shards[leader][~first], records["row"][leader][~first]
    pairs["other_shard"], pairs["other_row"] = shards[~first], records["row"][~first]
    return np.unique(pairs)
