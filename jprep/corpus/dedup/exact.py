"""The barrier between reading and segmenting: which documents and lines occurred before, anywhere in the corpus.

Hashes fall into buckets by their first bits; one task sorts one bucket, so memory is bounded by a bucket's size, not by
the corpus's. The first occurrence, in the order of sources, files and documents, stays. Hashes have 128 bits: among
10¹⁰ lines the chance that any two different ones agree is below 10⁻¹⁸.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.dedup.hashes import WHOLE, BucketStage, between, mapped
from jprep.engine.stage import Output, Result, Task
from jprep.io.atomic import file_sha256, write_atomic

DROPS = "drops"


class Drops(msgspec.Struct):
    """What goes from one shard: whole documents by row, and lines by row."""

    documents: set[int] = msgspec.field(default_factory=set)
    lines: dict[int, list[int]] = msgspec.field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.documents or self.lines)


def _drop_type() -> Any:
    import numpy as np

    return np.dtype([("shard", "<u4"), ("row", "<u4"), ("line", "<i4")])


class ExactDedup(BucketStage):
    """Compares the hashes that the documents stage wrote.

    Args:
        hashes: its files of hashes, one a shard in the corpus's order, or None for a shard without any. The caller
            verifies them: every task reads a part of each.
        folder: where the outputs go, relative to the corpus, with a slash at its end.
        made_from: the documents stage's fingerprint.
    """

    name = "dedup"

    def __init__(self, hashes: list[Output | None], folder: str, made_from: str) -> None:
        super().__init__(hashes)
        self._folder, self._made_from = folder, made_from

    def fields(self) -> dict[str, Any]:
        """What was compared, and how: 128 bits of XXH3."""
        return {"documents": self._made_from, "hash": "xxh3_128"}

    def run(self, task: Task, root: Path) -> Result:
        """Find the duplicates among the hashes of one bucket."""
        drops = _repeats(*self._buckets.records(task.payload, root))
        path = f"{self._folder}{DROPS}/{task.id}"
        write_atomic(root / path, drops.tobytes())
        return Result([Output(path, len(drops), file_sha256(root / path))])


def _repeats(records: Any, shards: Any) -> Any:
    """Every record but the first of each hash, as drops sorted by place. A line never equals a whole document."""
    import numpy as np

    whole = records["line"] == WHOLE
    order = np.lexsort((records["line"], records["row"], shards, whole, records["low"], records["high"]))
    records, shards, whole = records[order], shards[order], whole[order]
    same = (records["high"][1:] == records["high"][:-1]) & (records["low"][1:] == records["low"][:-1])
    repeated = np.zeros(len(records), bool)
    repeated[1:] = same & (whole[1:] == whole[:-1])
    drops = np.empty(int(repeated.sum()), _drop_type())
    drops["shard"], drops["row"], drops["line"] = shards[repeated], records["row"][repeated], records["line"][repeated]
    return np.sort(drops, order=["shard", "row", "line"])


def drops_of(shard: int, root: Path, outputs: list[Output]) -> Drops:
    """What goes from one shard, gathered from all buckets."""
    drops = Drops()
    for output in outputs:
        if output.rows:
            for _, row, line in between(mapped(root / output.path, _drop_type()), "shard", shard, shard + 1).tolist():
                if line == WHOLE:
                    drops.documents.add(row)
                else:
                    drops.lines.setdefault(row, []).append(line)
    return drops
