"""Read the rejects of a corpus once: examples of each reason, and how often the same text was dropped."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from jprep.corpus.document import Reject
from jprep.corpus.store import rebuild_fix
from jprep.errors import JprepError
from jprep.io.verified_files import verify_file
from jprep.report.corpus.sampling import SmallestKeys, document_keys, sample_keys

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.store import Manifest
    from jprep.engine.stage import Output

EXAMPLES = 20
"""Documents shown for each reason."""
_MOST_REPEATED = 20
_ROWS = 1 << 15
DUPLICATES = "dedup.documents"


class Repeated(NamedTuple):
    """Duplicates whose texts begin alike.

    Attributes:
        excerpt: how they begin.
        times: how often they were dropped; the corpus has one more.
    """

    excerpt: str
    times: int


class RejectScan(NamedTuple):
    """What the rejects show.

    Attributes:
        examples: rejects by `step/reason`, at most `EXAMPLES` each.
        repeated: the most frequent duplicates.
        times: how many texts were dropped how often, by that number.
    """

    examples: dict[str, list[Reject]]
    repeated: list[Repeated]
    times: dict[int, int]


def scan_rejects(folder: Path, manifest: Manifest, reasons: Collection[str]) -> RejectScan:
    """Read the rejects of a corpus, in bounded memory.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.
        reasons: `step/reason` of which examples are wanted.

    Raises:
        DamagedError: a file is missing or damaged; the error names it.
    """
    samples = {reason: SmallestKeys[Reject](EXAMPLES) for reason in reasons}
    hashes = list[Any]()
    for batch in _batches(folder, manifest.reject_parts, list(Reject.__struct_fields__)):
        _offer(samples, batch)
        dropped = batch["excerpt"].filter(pc.equal(batch["step"], DUPLICATES))
        hashes.append(sample_keys(dropped))
    found, times = np.unique(np.concatenate([np.zeros(0, np.uint64), *hashes]), return_counts=True)
    how_often, texts = np.unique(times, return_counts=True)
    return RejectScan(
        examples={reason: sample.items() for reason, sample in samples.items()},
        repeated=_most_repeated(folder, manifest, found, times),
        times=dict(zip(how_often.tolist(), texts.tolist(), strict=True)),
    )


def _offer(samples: dict[str, SmallestKeys[Reject]], batch: Any) -> None:
    coded = pc.binary_join_element_wise(batch["step"], batch["reason"], "/").dictionary_encode()
    codes = coded.indices.to_numpy(zero_copy_only=False)
    keys = document_keys(batch["id"], batch["excerpt"])
    for code, reason in enumerate(coded.dictionary.to_pylist()):
        if sample := samples.get(reason):
            rows = np.flatnonzero(codes == code)
            sample.offer(keys[rows], lambda at, rows=rows: _reject(batch, int(rows[at])))  # type: ignore[misc]


def _reject(batch: Any, row: int) -> Reject:
    return Reject(**{name: batch[name][row].as_py() for name in Reject.__struct_fields__})


def _most_repeated(
    folder: Path, manifest: Manifest, hashes: NDArray[np.uint64], times: NDArray[np.intp]
) -> list[Repeated]:
    """Return the most frequent duplicates; their texts are read again, since only hashes were kept."""
    order = np.lexsort((hashes, -times.astype(np.int64)))[:_MOST_REPEATED]
    wanted = {int(hashes[at]): int(times[at]) for at in order}
    texts: dict[int, str] = {}
    parts = manifest.reject_parts if wanted else []
    for batch in _batches(folder, parts, ["step", "excerpt"]):
        dropped = batch["excerpt"].filter(pc.equal(batch["step"], DUPLICATES))
        for row, key in enumerate(sample_keys(dropped).tolist()):
            if key in wanted and key not in texts:
                texts[key] = dropped[row].as_py()
        if len(texts) == len(wanted):
            break
    return [Repeated(texts[key], count) for key, count in wanted.items()]


def _batches(folder: Path, parts: list[Output], columns: list[str]) -> Iterator[Any]:
    for part in parts:
        path = verify_file(folder / part.path, part.sha256, rebuild_fix(folder))
        try:
            with pq.ParquetFile(path) as parquet:
                yield from parquet.iter_batches(batch_size=_ROWS, columns=columns)
        except (OSError, pa.ArrowException) as error:
            raise JprepError(
                f"cannot read a file of rejects: {error}", where=str(path), fix=rebuild_fix(folder)
            ) from error
        pa.default_memory_pool().release_unused()
