"""The stage that joins pairs to clusters and chooses which document of each cluster stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import NearConfig
from jprep.corpus.dedup.hashes import map_records, rank_type, slice_between, write_records
from jprep.corpus.dedup.near.pairs import pair_type
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Result, Stage, Task

CLUSTERS = "clusters"
_CHUNK = 1 << 22  # pairs joined at a time, 64 MiB


class Membership(msgspec.Struct, frozen=True):
    """The cluster of a document.

    Attributes:
        cluster: the cluster's first document in the corpus, as SHARD:ROW; the same for all its documents.
        size: number of documents in the cluster, at least 2.
        keep: whether it is the document that stays.
    """

    cluster: str
    size: int
    keep: bool


def _member_type() -> Any:
    import numpy as np

    places = [("shard", "<u4"), ("row", "<u4"), ("first_shard", "<u4"), ("first_row", "<u4")]
    return np.dtype([*places, ("size", "<u4"), ("keep", "u1")])


class NearClusters(Stage):
    """Joins pairs to clusters. Memory is eight bytes per document of the corpus, and a bounded number of pairs.

    Args:
        pairs: outputs of `NearPairs`, which the caller verifies.
        rows: number of documents of each shard.
        ranks: files with the lengths or scores of the documents of each shard; empty if the first one stays.
        config: how documents are compared and which one stays.
        folder: where to write, relative to the corpus, with a trailing slash.
    """

    name = "near-clusters"

    def __init__(
        self, pairs: Sequence[Output], rows: Sequence[int], ranks: Sequence[Output], config: NearConfig, folder: str
    ) -> None:
        self._pairs, self._rows, self._ranks = list(pairs), list(rows), list(ranks)
        self._config, self._folder = config, folder

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the pairs, the documents, and which one stays."""
        files = [file.sha256 for file in (*self._pairs, *self._ranks)]
        return {"files": fingerprint({"sha256": files}), "rows": self._rows, "keep": self._config.keep}

    def total(self) -> int:
        """Return the number of tasks, which is one: a cluster may reach across the whole corpus."""
        return 1

    def tasks(self) -> Iterator[Task]:
        """Yield the task."""
        yield Task("000000", None, weight=1)

    def run(self, task: Task, root: Path) -> Result:
        """Write the clustered documents in the order of the corpus."""
        import numpy as np

        starts = np.concatenate([[0], np.cumsum(self._rows)]).astype(np.int64)
        parents = np.arange(starts[-1])
        changed = True
        while changed:
            changed = sum(_join(parents, pairs) for pairs in self._chunks(root, starts)) > 0
        members = self._members(parents, starts, root)
        path = f"{self._folder}{CLUSTERS}/{task.id}"
        return Result([write_records(root, path, members)])

    def _chunks(self, root: Path, starts: Any) -> Iterator[tuple[Any, Any]]:
        """Yield pairs as numbers of documents in the corpus."""
        for output in self._pairs:
            for chunk in range(0, output.rows, _CHUNK):
                pairs = map_records(root / output.path, pair_type())[chunk : chunk + _CHUNK]
                first = starts[pairs["shard"]] + pairs["row"]
                yield first, starts[pairs["other_shard"]] + pairs["other_row"]

    def _members(self, parents: Any, starts: Any, root: Path) -> Any:
        import numpy as np

        sizes = np.bincount(parents, minlength=len(parents))
        numbers = np.flatnonzero(sizes[parents] > 1)
        clusters = parents[numbers]
        members = np.zeros(len(numbers), _member_type())
        for name, values in (("", numbers), ("first_", clusters)):
            shards = np.searchsorted(starts, values, side="right") - 1
            members[f"{name}shard"], members[f"{name}row"] = shards, values - starts[shards]
        members["size"] = sizes[clusters]
        members["keep"] = self._kept(numbers, clusters, root)
        return members

    def _kept(self, numbers: Any, clusters: Any, root: Path) -> Any:
        """Return whether each clustered document stays: the first of its cluster, or of its longest or best."""
        import numpy as np

        if self._config.keep == "first" or not len(numbers):
            return numbers == clusters
        kind = rank_type(self._config.score)
        ranks = np.concatenate([np.fromfile(root / file.path, kind) for file in self._ranks])[numbers]
        order = np.lexsort((numbers, -ranks.astype("<f8"), clusters))
        best = np.ones(len(order), bool)
        best[1:] = clusters[order][1:] != clusters[order][:-1]
        kept = np.zeros(len(order), bool)
        kept[order[best]] = True
        return kept


def _join(parents: Any, pairs: tuple[Any, Any]) -> bool:
    """Give both documents of each pair the smaller one of their clusters; return whether a cluster changed."""
    import numpy as np

    first, second = parents[pairs[0]], parents[pairs[1]]
    low, high = np.minimum(first, second), np.maximum(first, second)
    if not (different := low != high).any():
        return False
    np.minimum.at(parents, high[different], low[different])
    while not np.array_equal(parents, above := parents[parents]):
        parents[:] = above
    return True


def members_of_shard(shard: int, root: Path, clusters: Output) -> dict[int, Membership]:
    """Return the memberships of a shard's documents by row, from the output of `NearClusters`, which is verified."""
    if not clusters.rows:
        return {}
    members = slice_between(map_records(root / clusters.path, _member_type()), "shard", shard, shard + 1)
    return {
        row: Membership(f"{first_shard}:{first_row}", size, bool(keep))
        for _, row, first_shard, first_row, size, keep in members.tolist()
    }
