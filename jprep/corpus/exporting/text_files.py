"""Write a corpus as text files with a number of lines each, by any number of processes."""

from __future__ import annotations

import contextlib
from bisect import bisect_right
from collections.abc import Iterator
from importlib.metadata import version
from itertools import accumulate, groupby, islice
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.document import Document
from jprep.corpus.exporting.formats import FORMS, TextFormat
from jprep.corpus.store import Manifest, read_rows
from jprep.engine.checksummed_json import decode_checksummed
from jprep.engine.fingerprint import plain
from jprep.engine.output_directory import OutputDirectory
from jprep.engine.output_kinds import CORPUS_EXPORT
from jprep.engine.runner import Executor, ProgressReporter, list_outputs, read_made_from, sum_counts
from jprep.engine.stage import Output, Result, Stage, Task
from jprep.errors import ConfigError, DamagedError
from jprep.io.atomic import atomic_path, file_sha256

VERSION = 2
"""Increased when the same corpus and options would give different bytes than before."""

_SUFFIXES = {form: ".jsonl" if form == "jsonl" else ".txt" for form in FORMS}
_FILES = tuple(f"{form}-[0-9]*-of-[0-9]*{suffix}" for form, suffix in _SUFFIXES.items())


class CorpusExportManifest(msgspec.Struct, frozen=True, kw_only=True):
    """`export.json` of a directory of text files. It is written last: a directory without it is unfinished.

    Attributes:
        jprep: version of jprep that wrote it.
        made_from: fingerprint and files of the corpus, the format, and the lines of a file.
        lines_per_file: lines of each file but the last.
        corpus: name and signature of the corpus.
        counts: documents and lines.
        files: the files in order; their rows are lines.
    """

    jprep: str
    made_from: dict[str, Any]
    lines_per_file: int
    corpus: dict[str, str]
    counts: dict[str, int]
    files: list[Output]


def export_text_files(
    corpus: Path,
    manifest: Manifest,
    out: Path,
    lines_per_file: int,
    form: TextFormat,
    executor: Executor,
    progress: ProgressReporter,
) -> CorpusExportManifest:
    """Write a corpus as files with a number of lines each, resume an interrupted export, or verify a finished one.

    The files joined together are the output of `Corpus.export`. An export with other options is replaced.

    Args:
        corpus: directory of the corpus.
        manifest: its manifest.
        out: output directory; new, empty, or with such an export.
        lines_per_file: lines of each file but the last; a document may be continued in the next file.
        form: how documents become lines.
        executor: runs the tasks.
        progress: progress callback.

    Raises:
        ConfigError: a number below 1, or an output directory with other content.
        DamagedError: a shard of the corpus is damaged.
        MachineError: the files cannot be written.
    """
    if lines_per_file < 1:
        raise ConfigError("a file must have at least one line", where="lines_per_file", fix="e.g. 1000000")
    directory = OutputDirectory(out, CORPUS_EXPORT, files=_FILES)
    count = CountLinesStage(corpus, manifest, form)
    made_from = plain(count.fields() | {"lines_per_file": lines_per_file})
    with directory.claim():
        if finished := _finished(directory, made_from):
            return finished
        _begin(directory, made_from)
        counted = directory.run_stage(count, executor, progress)
        stage = WriteStage(count, [receipt.counts.get("lines", 0) for receipt in counted], lines_per_file)
        files = list_outputs(directory.run_stage(stage, executor, progress))
        exported = CorpusExportManifest(
            jprep=version("jprep"),
            made_from=made_from,
            lines_per_file=lines_per_file,
            corpus={"name": manifest.name, "signature": manifest.signature},
            counts=sum_counts([receipt.counts for receipt in counted]),
            files=files,
        )
        directory.seal(exported, keep={file.path for file in files})
        directory.clean()
    return exported


class CountLinesStage(Stage):
    """Counts the lines of each shard of a corpus.

    Args:
        corpus: directory of the corpus.
        manifest: its manifest.
        form: how documents become lines.
    """

    name = "lines"
    title = "counting lines"

    def __init__(self, corpus: Path, manifest: Manifest, form: TextFormat) -> None:
        self.corpus, self.form, self.parts = corpus.absolute(), form, manifest.parts
        self._fields = {"version": VERSION, "corpus": manifest.fingerprint, "format": form}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: the corpus and the format."""
        return self._fields | {"files": [part.sha256 for part in self.parts]}

    def total(self) -> int:
        """Return the number of documents."""
        return sum(part.rows for part in self.parts)

    def tasks(self) -> Iterator[Task]:
        """Yield one task for each shard of the corpus."""
        for number, part in enumerate(self.parts):
            yield Task(f"{number:08d}", number, part.rows, part.sha256)

    def run(self, task: Task, root: Path) -> Result:
        """Count the lines of one shard."""
        lines = documents = 0
        for text in self.texts(task.payload):
            lines, documents = lines + text.count("\n"), documents + 1
        return Result([], {"documents": documents, "lines": lines})

    def texts(self, number: int) -> Iterator[str]:
        """Yield the lines of each document of a shard."""
        columns = None if self.form.form == "jsonl" else ["words"]
        return map(self.form.lines, read_rows(self.corpus, self.parts[number], Document, columns))


class WriteStage(Stage):
    """Writes the files. A task writes those whose first lines are in the same shard of the corpus.

    Args:
        count: the stage that counted the lines.
        lines: lines of each shard of the corpus.
        size: lines of a file.
    """

    name = "files"
    title = "writing files"

    def __init__(self, count: CountLinesStage, lines: list[int], size: int) -> None:
        self._count, self._size = count, size
        self._starts = [0, *accumulate(lines)]

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: those of the counted lines, and the lines of a file."""
        return self._count.fields() | {"lines_per_file": self._size}

    def total(self) -> int:
        """Return the number of lines."""
        return self._starts[-1]

    def tasks(self) -> Iterator[Task]:
        """Yield one task for each shard of the corpus in which a file begins."""
        for part, files in groupby(range(self._files), self._part):
            first, *others = files
            last = others[-1] if others else first
            lines = min(self._starts[-1], (last + 1) * self._size) - first * self._size
            yield Task(f"{first:08d}", (part, first, last + 1), lines)

    def run(self, task: Task, root: Path) -> Result:
        """Write consecutive files."""
        part, first, stop = task.payload
        lines = islice(self._lines(part), first * self._size - self._starts[part], None)
        return Result([self._write(root, number, islice(lines, self._size)) for number in range(first, stop)])

    @property
    def _files(self) -> int:
        return -(-self._starts[-1] // self._size)

    def _part(self, file: int) -> int:
        """Return the shard of the corpus that has the first line of a file."""
        return bisect_right(self._starts, file * self._size) - 1

    def _lines(self, part: int) -> Iterator[str]:
        """Yield the lines from a shard of the corpus on."""
        for number in range(part, len(self._starts) - 1):
            for text in self._count.texts(number):
                yield from (f"{line}\n" for line in text.split("\n")[:-1])

    def _write(self, root: Path, number: int, lines: Iterator[str]) -> Output:
        form = self._count.form.form
        name = f"{form}-{number:05d}-of-{self._files:05d}{_SUFFIXES[form]}"
        count = 0
        with atomic_path(root / name) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as file:
            for count, line in enumerate(lines, 1):  # noqa: B007 - the number of lines
                file.write(line)
        return Output(name, count, file_sha256(root / name))


def read_corpus_export(folder: Path) -> CorpusExportManifest:
    """Read the manifest of an export.

    Raises:
        ConfigError: the directory holds no finished export.
    """
    try:
        data = (folder / CORPUS_EXPORT.manifest).read_bytes()
        return decode_checksummed(data, CorpusExportManifest)
    except (FileNotFoundError, NotADirectoryError, ValueError) as error:
        fix = "give the output directory of `jprep corpus export --lines-per-file`; if it was interrupted, rerun it"
        raise ConfigError("no finished export in this directory", where=str(folder), fix=fix) from error


def _finished(directory: OutputDirectory, made_from: dict[str, Any]) -> CorpusExportManifest | None:
    """Return the manifest of a finished export if it is the requested one and undamaged."""
    with contextlib.suppress(ConfigError, DamagedError):
        found = read_corpus_export(directory.path)
        if found.made_from == made_from:
            directory.verify(made_from, found.made_from, found.files, "run the same command again")
            return found
    return None


def _begin(directory: OutputDirectory, made_from: dict[str, Any]) -> None:
    """Remove what an export with other options has left, and record what this one is made from."""
    directory.remove_manifest()
    if read_made_from(directory.state / CORPUS_EXPORT.made_from_file) != made_from:
        directory.clean()
    directory.resume(made_from)
