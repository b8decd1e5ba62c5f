"""Find documents and lines that occurred before, anywhere in the corpus.

Hashes are divided into buckets by their first bits. One task sorts one bucket, so memory depends on the size of a
bucket, not of the corpus. The first occurrence, in the order of sources, files and documents, is kept. Hashes have 128
bits: among 10¹⁰ lines the probability of any collision is below 10⁻¹⁸. Occurrences in near-duplicates that are dropped
come after all others, so that no text is dropped in favour of one that does not stay either.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import FrequentConfig
from jprep.corpus.dedup.hashes import (
    WHOLE_DOCUMENT,
    BucketStage,
    hash_begins,
    map_records,
    slice_between,
    write_records,
)
from jprep.corpus.dedup.near.clusters import are_dropped
from jprep.engine.stage import Output, Result, Task

DROPS = "drops"


class ShardDrops(msgspec.Struct):
    """What to drop from one shard.

    Attributes:
        documents: rows of the documents to drop.
        lines: numbers of the lines, or sentences, to drop, by row.
    """

    documents: set[int] = msgspec.field(default_factory=set)
    lines: dict[int, list[int]] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.documents or self.lines)


def _drop_type() -> Any:
    import numpy as np

    return np.dtype([("shard", "<u4"), ("row", "<u4"), ("line", "<i4")])


class ExactDedup(BucketStage):
    """The dedup stage: compares the hashes written by the read stage.

    Args:
        hashes: files of hashes, one per shard in the order of the corpus, or None for a shard without hashes. The
            caller verifies them, since every task reads a part of each.
        folder: where to write, relative to the corpus, with a trailing slash.
        made_from: fingerprint of the read stage.
        frequent: which of the lines, or sentences, that occur several times are dropped.
        near: the output of `NearClusters`, which the caller verifies, if documents that it drops could have the first
            occurrence of a text.
    """

    name = "dedup"
    title = "comparing"

    def __init__(
        self,
        hashes: list[Output | None],
        folder: str,
        made_from: str,
        frequent: FrequentConfig | None = None,
        near: Output | None = None,
    ) -> None:
        super().__init__(hashes)
        self._folder, self._made_from = folder, made_from
        self._frequent, self._near = frequent or FrequentConfig(), near

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the documents, the hash function, and near-duplicates."""
        near = {"near": self._near.sha256} if self._near else {}
        return {"documents": self._made_from, "hash": "xxh3_128", **near}

    def run(self, task: Task, root: Path) -> Result:
        """Find the duplicates among the hashes of one bucket."""
        import numpy as np

        records, shards = self._buckets.records(task.payload, root)
        gone = np.zeros(len(records), bool)
        if self._near:
            gone = are_dropped(shards, records["row"], root, self._near)
        drops = _repeats(records, shards, gone, self._frequent)
        path = f"{self._folder}{DROPS}/{task.id}"
        return Result([write_records(root, path, drops)])


def _repeats(records: Any, shards: Any, gone: Any, frequent: FrequentConfig) -> Any:
    """Return the records to drop, sorted by position. Lines do not match whole documents; `gone` ones come last.

    Of whole documents, these are all but the first of each hash; of lines, those of hashes that occur too often.
    """
    import numpy as np

    whole = records["line"] == WHOLE_DOCUMENT
    order = np.lexsort((records["line"], records["row"], shards, gone, whole, records["low"], records["high"]))
    records, shards, whole = records[order], shards[order], whole[order]
    begins = hash_begins(records)
    begins[1:] |= whole[1:] != whole[:-1]
    starts = np.flatnonzero(begins)
    counts = np.diff(starts, append=len(records))
    earlier = np.arange(len(records)) - np.repeat(starts, counts)
    too_many = np.repeat(counts, counts) > np.where(whole, 1, frequent.max_count)
    repeated = too_many & (earlier >= np.where(whole, 1, frequent.keep))
    drops = np.empty(int(repeated.sum()), _drop_type())
    drops["shard"], drops["row"], drops["line"] = shards[repeated], records["row"][repeated], records["line"][repeated]
    return np.sort(drops, order=["shard", "row", "line"])


def drops_for_shard(shard: int, root: Path, outputs: list[Output]) -> ShardDrops:
    """Collect what to drop from one shard, from the outputs of all buckets."""
    drops = ShardDrops()
    for output in outputs:
        if output.rows:
            for _, row, line in slice_between(
                map_records(root / output.path, _drop_type()), "shard", shard, shard + 1
            ).tolist():
                if line == WHOLE_DOCUMENT:
                    drops.documents.add(row)
                else:
                    drops.lines.setdefault(row, []).append(line)
    return drops
