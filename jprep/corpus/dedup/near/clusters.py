"""The stage that joins pairs to clusters and chooses which document of each cluster stays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import NearConfig
from jprep.corpus.dedup.hashes import map_records, rank_type, slice_between, write_chunks
from jprep.corpus.dedup.near.pairs import pair_type
from jprep.engine.fingerprint import fingerprint
from jprep.engine.stage import Output, Result, Stage, Task

CLUSTERS = "clusters"
_CHUNK = 1 << 20  # pairs joined, or documents looked at, at a time: about 100 MiB


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

    Where the longest document stays, it is 16 bytes per document; where the best one stays, 20.

    Args:
        pairs: outputs of `NearPairs`, which the caller verifies.
        rows: number of documents of each shard.
        ranks: files with the lengths or scores of the documents of each shard; empty if the first one stays.
        config: how documents are compared and which one stays.
        folder: where to write, relative to the corpus, with a trailing slash.
    """

    name = "near-clusters"
    title = "grouping similar documents"

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
        parents = np.arange(starts[-1], dtype=np.uint32 if starts[-1] < 1 << 32 else np.int64)
        for first, second in self._chunks(root, starts):
            join(parents, first, second)
        flatten(parents)
        path = f"{self._folder}{CLUSTERS}/{task.id}"
        return Result([write_chunks(root, path, self._members(parents, starts, root))])

    def _chunks(self, root: Path, starts: Any) -> Iterator[tuple[Any, Any]]:
        """Yield pairs as numbers of documents in the corpus."""
        for output in self._pairs:
            for chunk in range(0, output.rows, _CHUNK):
                pairs = map_records(root / output.path, pair_type())[chunk : chunk + _CHUNK]
                first = starts[pairs["shard"]] + pairs["row"]
                yield first, starts[pairs["other_shard"]] + pairs["other_row"]

    def _members(self, parents: Any, starts: Any, root: Path) -> Iterator[Any]:
        """Yield the records of the clustered documents in the order of the corpus."""
        import numpy as np

        sizes = _sizes(parents)
        stays = parents if self._config.keep == "first" else self._staying(parents, root)
        for begin in range(0, len(parents), _CHUNK):
            clusters = parents[begin : begin + _CHUNK]
            inside = np.flatnonzero(sizes[clusters] > 1)
            clusters, numbers = clusters[inside], inside + begin
            members = np.zeros(len(numbers), _member_type())
            for name, values in (("", numbers), ("first_", clusters)):
                shards = np.searchsorted(starts, values, side="right") - 1
                members[f"{name}shard"], members[f"{name}row"] = shards, values - starts[shards]
            members["size"], members["keep"] = sizes[clusters], stays[clusters] == numbers
            yield members

    def _staying(self, parents: Any, root: Path) -> Any:
        """Return the longest or best document of each cluster, the first of equal ones, at the cluster's number."""
        import numpy as np

        kind = np.dtype(rank_type(self._config.score))
        best = np.full(len(parents), -np.inf if kind.kind == "f" else 0, kind)
        for _, clusters, ranks in self._ranked(parents, root, kind):
            np.maximum.at(best, clusters, ranks)
        stays = np.full(len(parents), len(parents), parents.dtype)
        for numbers, clusters, ranks in self._ranked(parents, root, kind):
            is_best = ranks == best[clusters]
            np.minimum.at(stays, clusters[is_best], numbers[is_best])
        return stays

    def _ranked(self, parents: Any, root: Path, kind: Any) -> Iterator[tuple[Any, Any, Any]]:
        """Yield numbers of documents, their clusters and their ranks, shard by shard."""
        import numpy as np

        begin = 0
        for file in self._ranks:
            ranks = np.fromfile(root / file.path, kind)
            end = begin + len(ranks)
            yield np.arange(begin, end, dtype=parents.dtype), parents[begin:end], ranks
            begin = end


def join(parents: Any, first: Any, second: Any) -> None:
    """Join the clusters of the two documents of each pair.

    Args:
        parents: for each document its own number, or a smaller one of its cluster.
        first: numbers of documents (pairs).
        second: numbers of documents (pairs).
    """
    import numpy as np

    while True:
        roots = _roots(parents, first), _roots(parents, second)
        different = roots[0] != roots[1]
        if not different.any():
            return
        first, second = roots[0][different], roots[1][different]
        low, high = np.minimum(first, second), np.maximum(first, second)
        np.minimum.at(parents, high, low)
        _shorten(parents, high)


def _roots(parents: Any, numbers: Any) -> Any:
    """Return the first document known of each document's cluster, and make it the parent of the document."""
    import numpy as np

    roots = parents[numbers]
    while not np.array_equal(roots, above := parents[roots]):
        roots = above
    parents[numbers] = roots
    return roots


def _shorten(parents: Any, numbers: Any) -> None:
    """Point documents that were joined to one another, in a chain of any length, to its first one."""
    import numpy as np

    # Each step doubles the distance, so that a chain of a million takes twenty steps.
    while not np.array_equal(above := parents[numbers], far := parents[above]):
        parents[numbers] = far


def flatten(parents: Any) -> None:
    """Give each document the first one of its cluster. Parents are smaller, so those of earlier chunks are final."""
    import numpy as np

    for begin in range(0, len(parents), _CHUNK):
        part = parents[begin : begin + _CHUNK]
        while not np.array_equal(part, above := parents[part]):
            part[:] = above


def _sizes(parents: Any) -> Any:
    """Return the number of documents of each cluster, at the cluster's number."""
    import numpy as np

    sizes = np.zeros(len(parents), np.uint32)
    for begin in range(0, len(parents), _CHUNK):
        np.add.at(sizes, parents[begin : begin + _CHUNK], 1)
    return sizes


def are_dropped(shards: Any, rows: Any, root: Path, clusters: Output) -> Any:
    """Return whether each document is dropped in favour of another one of its cluster.

    Args:
        shards, rows: the places of the documents, (documents,), in any order and repeated.
        root: the folder of the corpus.
        clusters: the output of `NearClusters`, which is verified.
    """
    import numpy as np

    if not clusters.rows:
        return np.zeros(len(rows), bool)
    starts, bits = _dropped_documents(root / clusters.path, clusters.sha256)
    shards = np.asarray(shards, np.int64)
    known = shards < len(starts) - 1
    at = starts[np.where(known, shards, 0)] + rows
    known &= at < starts[np.where(known, shards + 1, 0)]
    at = np.where(known, at, 0)
    return known & (bits[at >> 3] >> (at & 7) & 1 > 0)


@lru_cache(1)  # each task of a process asks for them
def _dropped_documents(path: Path, _sha256: str) -> tuple[Any, Any]:
    """Return where the bits of each shard start, int64 (shards + 1,), and a bit for each of its documents.

    A shard has bits up to its last document that is in a cluster.
    """
    import numpy as np

    rows = np.zeros(0, np.int64)
    for members in _member_chunks(path):
        shards = members["shard"].astype(np.int64)
        rows = np.concatenate([rows, np.zeros(max(0, int(shards.max()) + 1 - len(rows)), np.int64)])
        np.maximum.at(rows, shards, members["row"].astype(np.int64) + 1)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(rows)])
    bits = np.zeros(int(starts[-1]) // 8 + 1, np.uint8)
    for members in _member_chunks(path):
        gone = members[members["keep"] == 0]
        at = starts[gone["shard"]] + gone["row"]
        np.bitwise_or.at(bits, at >> 3, np.left_shift(1, at & 7).astype(np.uint8))
    return starts, bits


def _member_chunks(path: Path) -> Iterator[Any]:
    members = map_records(path, _member_type())
    for chunk in range(0, len(members), _CHUNK):
        yield members[chunk : chunk + _CHUNK]


def members_of_shard(shard: int, root: Path, clusters: Output) -> dict[int, Membership]:
    """Return the memberships of a shard's documents by row, from the output of `NearClusters`, which is verified."""
    if not clusters.rows:
        return {}
    members = slice_between(map_records(root / clusters.path, _member_type()), "shard", shard, shard + 1)
    return {
        row: Membership(f"{first_shard}:{first_row}", size, bool(keep))
        for _, row, first_shard, first_row, size, keep in members.tolist()
    }
