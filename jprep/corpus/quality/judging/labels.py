"""Labels of documents on disk: a log while they are made, then one sorted file with a manifest."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

import msgspec
import xxhash

from jprep.engine import manifest
from jprep.engine.output_directory import OutputDirectory
from jprep.errors import DamagedError
from jprep.io.atomic import write_atomic
from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.verified_files import read_if_exists, read_verified

MANIFEST = "labels.json"
PATTERN = "labels-*.jsonl"
LOG = "replies"
_AGAIN = "judge again with --restart, which asks for all labels again"


class Label(msgspec.Struct, frozen=True):
    """What a language model said about a document.

    Attributes:
        hash: hash of the whole text, see `document_hash`.
        id: id of the document.
        score: the score in the reply; None if the reply has none, or the endpoint refused the document.
        reply: the reply.
        tokens: tokens that the request cost.
        text: the text as it was sent.
        problem: why the endpoint refused the document, in its own words.
    """

    hash: str
    id: str
    score: float | None
    reply: str | None
    tokens: int
    text: str
    problem: str = ""


class LabelCard(msgspec.Struct, frozen=True, kw_only=True):
    """The manifest of labels, `labels.json`.

    Attributes:
        jprep: version of jprep that made them.
        fingerprint: hash of `made_from`.
        made_from: model, prompt, and how scores are read from replies.
        file: name of the file with the labels.
        sha256: its hash.
        counts: number of labels, of those without a score, and of tokens.
        rejects: rows and lines of the inputs without a document, by step and reason, in the last run.
    """

    jprep: str
    fingerprint: str
    made_from: dict[str, Any]
    file: str
    sha256: str
    counts: dict[str, int]
    rejects: dict[str, int] = {}


def document_hash(text: str) -> str:
    """Return the hash by which a document's label is found, 32 hexadecimal digits."""
    return xxhash.xxh3_128_hexdigest(text.encode("utf-8", "surrogatepass"))


def read_card(folder: Path) -> LabelCard:
    """Read the manifest of labels.

    Raises:
        ConfigError: there are no finished labels.
        DamagedError: it is damaged.
    """
    return manifest.read_manifest(folder / MANIFEST, LabelCard, what="set of labels", command="jprep quality judge")


def read_labels(folder: Path) -> list[Label]:
    """Return the labels of a finished directory, sorted by hash.

    Raises:
        ConfigError: there are no finished labels.
        DamagedError: the file is missing or damaged.
    """
    card = read_card(folder)
    name = Path(card.file).name
    data = read_verified(folder / name, card.sha256, _AGAIN)
    return [msgspec.json.decode(line, type=Label) for line in data.splitlines()]


class LabelLog:
    """A file that labels are appended to, each with a checksum. What a killed run has written is read back.

    Args:
        path: the file.

    Attributes:
        labels: what it holds.

    Raises:
        DamagedError: a line other than the last one is damaged.
    """

    def __init__(self, path: Path) -> None:
        self.labels = list[Label]()
        self._path, self._file = path, cast("IO[bytes] | None", None)
        self._complete = self._read(read_if_exists(path) or b"", path)

    def append(self, label: Label) -> None:
        """Add a label; when this returns, it is on the disk."""
        data, file = msgspec.json.encode(label), self._opened()
        try:
            file.write(_check(data) + b" " + data + b"\n")
            file.flush()
            os.fsync(file.fileno())
        except OSError as error:
            raise write_error(error, self._path) from error
        self.labels.append(label)
        failpoint("judge.replied")

    def close(self) -> None:
        """Close the file."""
        if self._file:
            self._file.close()

    def _opened(self) -> IO[bytes]:
        """Return the file, opened with the first label: a run without replies leaves nothing."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self._path.open("ab")
            self._file.truncate(self._complete)
        return self._file

    def _read(self, data: bytes, path: Path) -> int:
        """Read the labels; return the bytes of complete lines. A last line without its end was being written."""
        complete = data.rfind(b"\n") + 1
        for line in data[:complete].splitlines():
            check, _, content = line.partition(b" ")
            if check != _check(content):
                what = "a reply was changed or damaged"
                raise DamagedError(what, where=str(path), fix=_AGAIN, options=("--restart",))
            self.labels.append(msgspec.json.decode(content, type=Label))
        return complete


def seal_labels(
    out: OutputDirectory,
    labels: Iterable[Label],
    made_from: dict[str, Any],
    about: dict[str, str],
    rejects: dict[str, int],
) -> LabelCard:
    """Write all labels as one file and the manifest that names it, then delete the file that it replaces.

    Args:
        out: the claimed output directory.
        labels: all labels.
        made_from: model, prompt and options.
        about: version of jprep and fingerprint, for the manifest.
        rejects: what the readers rejected.
    """
    ordered = sorted(labels, key=lambda each: each.hash)
    data = b"".join(msgspec.json.encode(each) + b"\n" for each in ordered)
    sha256 = hashlib.sha256(data).hexdigest()
    name = PATTERN.replace("*", sha256[:16])
    write_atomic(out.path / name, data)
    counts = {
        "labels": len(ordered),
        "without_score": sum(each.score is None for each in ordered),
        "tokens": sum(each.tokens for each in ordered),
    }
    card = LabelCard(
        jprep=about["jprep"],
        fingerprint=about["fingerprint"],
        made_from=made_from,
        file=name,
        sha256=sha256,
        counts=counts,
        rejects=rejects,
    )
    out.seal(card)
    out.remove_files(keep=(name,))
    return card


def _check(data: bytes) -> bytes:
    return xxhash.xxh3_64_hexdigest(data).encode()
