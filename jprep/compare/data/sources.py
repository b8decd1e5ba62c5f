"""Read the recipes' sources once, before any normalizer or filter, and write the texts that arms train on."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import xxhash

from jprep.compare.arms import source_origin
from jprep.corpus.api import Corpus
from jprep.corpus.build import build
from jprep.corpus.config import VERSION, CorpusConfig, CorpusRecipe, DedupConfig, Source
from jprep.corpus.document import Document
from jprep.engine.fingerprint import fingerprint
from jprep.engine.runner import Executor, ProgressReporter
from jprep.io.atomic import atomic_path

Exclude = Callable[[Document], bool]

_COLUMNS = ("id", "source", "title", "url", "text")


class RawText(msgspec.Struct, frozen=True):
    """A line of a file of raw texts.

    Attributes:
        id: id of the document without its source.
        title: title of the document.
        url: address of the document.
        text: text as it was read.
    """

    id: str
    title: str
    url: str
    text: str


def raw_corpus_folder(folder: Path, source: Source) -> Path:
    """Return where the documents of a source are, as they are read."""
    return folder / "sources" / fingerprint(source_origin(source))[:16]


def read_source(folder: Path, source: Source, executor: Executor, progress: ProgressReporter) -> Corpus:
    """Read a source into a corpus without normalizers, filters, deduplication and words.

    Raises:
        JprepError: see `jprep.corpus.build.build`.
    """
    plain = msgspec.structs.replace(source, name="source", filters=[])
    config = CorpusConfig(
        sources=[plain], normalizers=[], filters=[], dedup=DedupConfig(documents=False), segmenter="none"
    )
    output = raw_corpus_folder(folder, source)
    build(CorpusRecipe(name="source", version=VERSION, corpus=config), output, executor, progress)
    return Corpus(output)


def text_hash(text: str) -> int:
    """Return 64 bits that choose held-out texts and samples, a function of the text only."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed=0x6A70)


def raw_documents(corpus: Corpus) -> Iterator[Document]:
    """Yield the documents of a raw corpus."""
    return corpus.documents(_COLUMNS)


def write_training_texts(path: Path, corpus: Corpus, held_out: Collection[int], share: float) -> None:
    """Write the texts of a raw corpus that arms may train on, as JSON lines.

    Args:
        path: the file.
        corpus: the raw corpus.
        held_out: hashes of the held-out texts.
        share: share of the documents to write, selected by their hashes.
    """
    limit = share * 2.0**64
    kept = (doc for doc in raw_documents(corpus) if (mark := text_hash(doc.text)) not in held_out and _low(mark, limit))
    write_lines(path, (raw_text(doc) for doc in kept))


def _low(mark: int, limit: float) -> bool:
    """Return whether a hash is in the sample; its bits are mixed so that held-out texts are not the nearest ones."""
    return (mark * 0x9E3779B97F4A7C15) % 2**64 < limit


def raw_text(document: Document) -> RawText:
    """Return a document as a line of a file of raw texts."""
    return RawText(document.id.partition(":")[2], document.title, document.url, document.text)


def write_lines(path: Path, lines: Iterable[msgspec.Struct]) -> None:
    """Write structs as JSON lines, atomically."""
    with ExitStack() as stack:
        file = stack.enter_context(stack.enter_context(atomic_path(path)).open("wb"))
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")
