"""Read the documents of corpora and files that a quality classifier is trained on, or scores."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import xxhash

from jprep.batching import batches_of
from jprep.corpus.config import make_step
from jprep.corpus.document import Document
from jprep.corpus.signals.batch import TextBatch
from jprep.corpus.store import read_manifest, read_rows
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError
from jprep.io.hashing import cached_sha256
from jprep.io.inputs.paths import SUFFIXES
from jprep.io.inputs.streams import open_input

_READERS = {".txt": "text", ".jsonl": "jsonl", ".json": "jsonl", ".parquet": "parquet"}
_HEAD = 1 << 20  # bytes in which a blank line separates documents
_BATCH = 1 << 18  # characters of the documents that are scored together


def describe_inputs(paths: Sequence[Path]) -> list[dict[str, str]]:
    """Return the name and the hash of each corpus or file, for a fingerprint.

    Raises:
        ConfigError: a path does not exist, or is neither a corpus nor a text, JSONL or Parquet file.
    """
    return [_describe(path) for path in paths]


def check_inputs(paths: Sequence[Path]) -> None:
    """Check that each path is a corpus or a file that can be read; see `describe_inputs`, which also hashes them."""
    for path in paths:
        if path.is_dir():
            read_manifest(path)
        else:
            _reader(path)


def _describe(path: Path) -> dict[str, str]:
    if path.is_dir():
        corpus = read_manifest(path)
        return {"corpus": corpus.name, "sha256": fingerprint({part.path: part.sha256 for part in corpus.parts})}
    _reader(path)
    return {"file": path.name, "sha256": cached_sha256(path)}


def read_documents(path: Path, text: str = "text", rejects: Counter[str] | None = None) -> Iterator[Document]:
    """Yield the documents of a corpus, or of a text, JSONL or Parquet file, in bounded memory.

    In a text file a document ends at a blank line, or at each line if the first MiB has no blank line.

    Args:
        path: directory of a corpus, or a file, perhaps compressed.
        text: the field or column with the text, in JSONL and Parquet files.
        rejects: counts what the reader rejects, by step and reason.

    Raises:
        ConfigError: it does not exist, or is of another kind.
        InputError: it is damaged.
    """
    if path.is_dir():
        corpus = read_manifest(path)
        for part in corpus.parts:
            yield from read_rows(path, part, Document, ["id", "source", "text"])
        return
    reader = make_step("reader", _reference(path, text))
    for shard in reader.shards(str(path)):
        for item in reader.read(shard, path.name):
            if isinstance(item, Document):
                yield item
            elif rejects is not None:
                rejects[f"{item.step}/{item.reason}"] += 1


def read_text_batches(
    paths: Sequence[Path], text: str = "text", rejects: Counter[str] | None = None
) -> Iterator[TextBatch]:
    """Return the documents of several inputs in batches of bounded size; see `read_documents`."""
    documents = (doc for path in paths for doc in read_documents(path, text, rejects))
    return map(TextBatch, batches_of(documents, _BATCH, lambda doc: len(doc.text)))


def text_hash(text: str, seed: int = 0) -> int:
    """Return the hash of a text that decides where it belongs, 64 bits."""
    return xxhash.xxh3_64_intdigest(text.encode("utf-8", "surrogatepass"), seed)


def _reference(path: Path, text: str) -> dict[str, Any]:
    name = _reader(path)
    if name != "text":
        return {"use": name, "text": text}
    with open_input(str(path)) as stream:
        head = stream.read(_HEAD)
    blank = b"\n\n" in head.replace(b"\r\n", b"\n")
    return {"use": name, "documents": "blank_line" if blank else "line"}


def _reader(path: Path) -> str:
    suffixes = [each.lower() for each in path.suffixes if each.lower() not in SUFFIXES]
    if not path.exists():
        raise ConfigError("there is no such corpus or file", where=str(path), fix="check the path")
    name = _READERS.get(suffixes[-1] if suffixes else "")
    if name is None:
        fix = f"give the directory of a corpus, or a file *{', *'.join(_READERS)}, perhaps compressed"
        raise ConfigError("this is not a kind of file that is read here", where=str(path), fix=fix)
    return name
