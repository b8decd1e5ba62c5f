"""Read the documents of a corpus once: sizes by source, lengths, and a sample with what the filters measure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jprep.batching import batches_of
from jprep.corpus.document import Document
from jprep.corpus.shard_reader import read_batches, shard_of
from jprep.corpus.stages.read import source_index
from jprep.report.corpus.lengths import LengthHistogram
from jprep.report.corpus.measures import SampleMeasures
from jprep.report.corpus.reject_scan import EXAMPLES
from jprep.report.corpus.sampling import SmallestKeys, document_keys, key_limit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from jprep.corpus.store import Manifest

SAMPLE_DOCUMENTS = 20_000
"""About how many documents are measured."""
_SAMPLE_CHARACTERS = 40_000_000  # about how many characters of these documents: measuring costs time by the character
_BATCH_CHARACTERS = 1 << 18  # characters that are measured together
_TRACED = 40  # documents of each source whose records are read again
_TRACED_SOURCES = 6
EXCERPT = 300
"""Characters of an example."""


class Example(NamedTuple):
    """A document of the sample that is shown.

    Attributes:
        id: its id.
        source: its source.
        title: its title, or "".
        excerpt: its first characters.
        characters: number of characters of its text.
        part: index of its shard in the manifest.
        row: its row in that shard.
    """

    id: str
    source: str
    title: str
    excerpt: str
    characters: int
    part: int
    row: int


class DocumentScan(NamedTuple):
    """What one pass over the documents found.

    Attributes:
        documents: number of documents by source.
        characters: number of characters by source.
        lengths: lengths of all documents.
        measures: what was measured on the sample.
        examples: documents with the smallest hashes of their ids.
        traceable: documents of the first shard of each source, whose records can be read again at little cost.
    """

    documents: Counter[str]
    characters: Counter[str]
    lengths: LengthHistogram
    measures: SampleMeasures
    examples: list[Example]
    traceable: list[Example]


def scan_documents(folder: Path, manifest: Manifest) -> DocumentScan:
    """Read all documents of a corpus, in bounded memory.

    Raises:
        DamagedError: a shard is missing or damaged; the error names it.
    """
    measures = SampleMeasures(manifest)
    scan = DocumentScan(Counter(), Counter(), LengthHistogram(), measures, [], [])
    examples = SmallestKeys[Example](EXAMPLES)
    traceable = {part: SmallestKeys[Example](_TRACED) for part in _first_parts(manifest)}
    limit = key_limit(_share(manifest.totals))
    for number, row, batch in _batches(folder, manifest, measures.needs_words):
        lengths = pc.utf8_length(batch["text"]).to_numpy(zero_copy_only=False).astype(np.int64)
        keys = document_keys(batch["id"], batch["text"])
        scan.lengths.add(lengths)
        _add_sizes(scan, batch["source"], lengths)
        for sample in [examples, *filter(None, [traceable.get(number)])]:
            sample.offer(keys, partial(_example, batch, number, row, lengths))
        measured = (_document(batch, at) for at in np.flatnonzero(keys <= np.uint64(limit)).tolist())
        for docs in batches_of(measured, _BATCH_CHARACTERS, lambda doc: len(doc.text) + 1):
            measures.add(docs)
    return scan._replace(
        examples=examples.items(), traceable=[each for own in traceable.values() for each in own.items()]
    )


def _first_parts(manifest: Manifest) -> list[int]:
    """Return the index of the first shard of each source, of the first sources."""
    first: dict[int, int] = {}
    for number, part in enumerate(manifest.parts):
        first.setdefault(source_index(part), number)
    return list(first.values())[:_TRACED_SOURCES]


def _share(totals: dict[str, int]) -> float:
    """Return the share of documents to measure."""
    documents, characters = max(1, totals.get("documents", 0)), max(1, totals.get("characters", 0))
    return min(1.0, SAMPLE_DOCUMENTS / documents, _SAMPLE_CHARACTERS / characters)


def _batches(folder: Path, manifest: Manifest, words: bool) -> Iterator[tuple[int, int, Any]]:
    """Yield the index of a shard, the first row, and a record batch."""
    columns = [
        "text",
        "id",
        "source",
        "title",
        "url",
        *(["words"] if words else []),
        *(["signals"] if manifest.signals else []),
    ]
    for number, part in enumerate(manifest.parts):
        row = 0
        for batch in read_batches(folder, shard_of(folder, part, "text"), columns):
            yield number, row, batch
            row += batch.num_rows
            del batch
        pa.default_memory_pool().release_unused()


def _add_sizes(scan: DocumentScan, sources: Any, lengths: NDArray[np.int64]) -> None:
    coded = sources.dictionary_encode()
    codes, names = coded.indices.to_numpy(zero_copy_only=False), coded.dictionary.to_pylist()
    for code, name in enumerate(names):
        mask = codes == code
        scan.documents[name] += int(mask.sum())
        scan.characters[name] += int(lengths[mask].sum())


def _example(batch: Any, part: int, first: int, lengths: NDArray[np.int64], at: int) -> Example:
    cell = {name: batch[name][at].as_py() for name in ("id", "source", "title")}
    excerpt = pc.utf8_slice_codeunits(batch["text"].slice(at, 1), 0, EXCERPT)[0].as_py()
    return Example(cell["id"], cell["source"], cell["title"], excerpt, int(lengths[at]), part=part, row=first + at)


def _document(batch: Any, at: int) -> Document:
    names = ("id", "source", "title", "url", "text")
    more = {name: batch[name][at].as_py() for name in ("words", "signals") if name in batch.schema.names}
    return Document(**{name: batch[name][at].as_py() for name in names}, **more)
