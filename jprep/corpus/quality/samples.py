"""Draw a sample of the documents of each class, and keep it on disk in a random order that depends on nothing else."""

from __future__ import annotations

import contextlib
import heapq
import struct
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from jprep.corpus.document import Document
from jprep.corpus.quality.inputs import text_hash
from jprep.errors import JprepError
from jprep.io.os_errors import write_error

MAX_CHARACTERS = 10_000
"""Characters of a document that are used for training; a novel must not outweigh a thousand pages."""

_FILES = 128
_HEADER = struct.Struct("<QBI")
_SPLIT = 20  # one of so many documents calibrates, another one tests
_CALIBRATION, _TEST = 0, 1
_WRITE_BUFFER = 1 << 14


class Example(NamedTuple):
    """A document with its class.

    Attributes:
        hash: hash of the text.
        good: 1 for good text, 0 for bad.
        text: the text, at most `MAX_CHARACTERS`.
    """

    hash: int
    good: int
    text: str

    @property
    def part(self) -> str:
        """What the document is used for: `train`, `calibration` or `test`. Equal texts are in the same part."""
        number = self.hash // _FILES % _SPLIT
        return "calibration" if number == _CALIBRATION else "test" if number == _TEST else "train"


class SampleWriter:
    """Writes the documents with the smallest hashes of each class to files; equal texts of a class count once.

    Memory grows with the sample only.

    Args:
        folder: the directory of the files; it exists and is empty.
        most: documents of a class to keep at most.
        seed: draws another sample.
    """

    def __init__(self, folder: Path, most: int, seed: int) -> None:
        self._folder, self._most, self._seed = folder, most, seed
        self._smallest: tuple[list[int], list[int]] = ([], [])  # heaps of negated hashes
        self._held: tuple[set[int], set[int]] = (set(), set())

    def write(self, good: Iterable[Document], bad: Iterable[Document]) -> Sample:
        """Read all documents, and return the sample.

        Raises:
            JprepError: a class has no documents, or the disk is full.
        """
        with contextlib.ExitStack() as stack:
            try:
                files = [stack.enter_context(path.open("wb", _WRITE_BUFFER)) for path in _paths(self._folder)]
                for label, docs in ((1, good), (0, bad)):
                    for doc in docs:
                        self._add(label, doc.text[:MAX_CHARACTERS], files)
            except OSError as error:
                raise write_error(error, self._folder) from error
        self._refuse_one_class()
        bad_limit, good_limit = (-heap[0] for heap in self._smallest)
        return Sample(self._folder, (bad_limit, good_limit))

    def _refuse_one_class(self) -> None:
        for name, heap in zip(("bad", "good"), self._smallest, strict=True):
            if not heap:
                fix = f"give --{name} corpora or files with documents; with --labels, another --threshold"
                raise JprepError(f"the {name} inputs have no text", fix=fix)
        if self._held[0] == self._held[1]:
            what = "the good and the bad inputs have the same texts, so there is nothing to tell apart"
            raise JprepError(what, fix="give --good and --bad different documents")

    def _add(self, label: int, text: str, files: Sequence[IO[bytes]]) -> None:
        if not text.strip():
            return
        found, heap, held = text_hash(text, self._seed), self._smallest[label], self._held[label]
        if found in held or (len(heap) == self._most and -heap[0] <= found):
            return
        held.add(found)
        heapq.heappush(heap, -found)
        if len(heap) > self._most:
            held.remove(-heapq.heappop(heap))
        data = text.encode("utf-8", "surrogatepass")
        files[found % _FILES].write(_HEADER.pack(found, label, len(data)) + data)


class Sample(NamedTuple):
    """A sample on disk.

    Attributes:
        folder: the directory of its files.
        limits: the largest hash of each class, bad and good; documents of larger ones were superseded.
    """

    folder: Path
    limits: tuple[int, int]

    def files(self, epoch: int) -> Iterator[list[Example]]:
        """Yield the documents of each file; each epoch has its own order, whatever order they were read in."""
        paths = list(_paths(self.folder))
        for path in sorted(paths, key=lambda path: text_hash(f"{path.name} {epoch}")):
            found = sorted(self._read(path), key=lambda each: (text_hash(f"{each.hash} {epoch}"), each))
            yield found

    def _read(self, path: Path) -> Iterator[Example]:
        with path.open("rb") as file:
            while header := file.read(_HEADER.size):
                found, label, size = _HEADER.unpack(header)
                text = file.read(size)
                if found <= self.limits[label]:
                    yield Example(found, label, text.decode("utf-8", "surrogatepass"))


def _paths(folder: Path) -> Iterator[Path]:
    return (folder / f"{number:03}" for number in range(_FILES))
