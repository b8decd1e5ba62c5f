"""The stage before the first one: cut inputs that cannot be cut without reading all of them into shards.

Compressed files are read once, by workers: a file of several segments in parts, any other file as a whole, and then the
decompressed shards are cached until the tasks that read them are done. Each task writes a table of shards, so that a
resumed build does not read the inputs again. Other inputs need no such stage.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import msgspec

from jprep.corpus.config import CorpusConfig
from jprep.corpus.input_files import InputFile, contents_by_path, refuse_changed
from jprep.corpus.stages.planned_shards import PlannedShard, cached_outputs, without_data
from jprep.corpus.stages.record_scan import PartRecords, cut_shards, scan_part
from jprep.corpus.stages.sources import make_reader, task_id_prefix
from jprep.corpus.step import Reader, RecordScan
from jprep.engine.output_kinds import STATE
from jprep.engine.runner import list_outputs
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.io.atomic import write_atomic
from jprep.io.inputs.content_check import expect_contents, forget_contents
from jprep.io.inputs.limits import MIB
from jprep.io.inputs.segments import DIVIDE, segment_starts
from jprep.io.inputs.streams import compression_of
from jprep.io.verified_files import read_verified

TABLES = f"{STATE}/inputs/tables"
"""Directory of the tables of shards, relative to the corpus."""

PART = 8 * MIB
"""Stored bytes of a part of a file: some 50 MB of text."""

GROUP, GROUP_FILES = 16 * MIB, 1000
"""Most stored bytes and number of files that one task cuts, unless a single file is larger."""

_LARGE = 64 * MIB  # stored bytes of a file that one process should not have to decode
_log = logging.getLogger(__name__)


class CutFiles(msgspec.Struct, frozen=True):
    """Work: cut whole files of a source, by their numbers."""

    source: int
    files: list[int]


class ScanPart(msgspec.Struct, frozen=True):
    """Work: find the records of a part of a file.

    Attributes:
        source: number of the source.
        file: number of the file in the source.
        part: number of the part in the file.
        start: stored offset at which the part begins.
        end: that at which it ends; -1 for the end of the file.
        scan: what separates the records.
    """

    source: int
    file: int
    part: int
    start: int
    end: int
    scan: RecordScan


class ShardTable(msgspec.Struct, frozen=True, tag="shards"):
    """The shards of some files, by the number of the file."""

    files: dict[int, list[PlannedShard]]


class PartTable(msgspec.Struct, frozen=True, tag="part"):
    """The records of a part of a file."""

    scan: RecordScan
    records: PartRecords


class InputsStage(Stage):
    """Cuts inputs that have to be read from the start to the end.

    Args:
        config: the `[corpus]` section of the recipe.
        inputs: the files of each source.
        fields: the fields of the fingerprint of the stage that reads the documents.
    """

    name = "inputs"
    title = "cutting the inputs"

    def __init__(self, config: CorpusConfig, inputs: list[list[InputFile]], fields: dict[str, Any]) -> None:
        self._config, self._inputs, self._fields = config, inputs, fields
        self._warned = set[str]()

    @cached_property
    def _readers(self) -> list[Reader]:
        """The readers of this process. While they are open, every byte read of an input is compared with its hash."""
        expect_contents(self._contents)
        return [make_reader(source) for source in self._config.sources]

    @property
    def _contents(self) -> dict[str, Any]:
        return contents_by_path(file for files in self._inputs for file in files)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state without the readers: each process makes its own."""
        return {name: value for name, value in self.__dict__.items() if name != "_readers"}

    def fields(self) -> dict[str, Any]:
        """Return the fingerprint fields: those of the documents."""
        return self._fields

    def is_needed(self) -> bool:
        """Return whether there is anything to do."""
        return next(self.tasks(), None) is not None

    def tasks(self) -> Iterator[Task]:
        """Yield one task per part of a large file, per other file, or per group of small files."""
        for index, source in enumerate(self._config.sources):
            for number, (work, weight) in enumerate(self._work(index)):
                digest = hashlib.sha256(msgspec.msgpack.encode(work)).hexdigest()
                yield Task(f"{task_id_prefix(index, source)}{number:06d}", work, weight, digest)

    def _work(self, source: int) -> Iterator[tuple[CutFiles | ScanPart, int]]:
        if self._config.sources[source].shards:
            return  # only its first shards are read, by the stage that needs them
        group, size = list[int](), 0
        for number, file in enumerate(self._inputs[source]):
            cut = not file.is_pipe and self._readers[source].reads_through(file.path)
            parts = list(self._parts(source, number)) if cut else []
            if group and (parts or not cut or size + file.size > GROUP or len(group) == GROUP_FILES):
                yield CutFiles(source, group), size
                group, size = [], 0
            yield from parts
            if cut and not parts:
                group.append(number)
                size += file.size
        if group:
            yield CutFiles(source, group), size

    def _parts(self, source: int, number: int) -> Iterator[tuple[ScanPart, int]]:
        """Yield the parts of a file that is large enough to be searched by several tasks, and allows it."""
        file, reader = self._inputs[source][number], self._readers[source]
        if file.size < 2 * PART or (scan := reader.record_scan(file.path)) is None:
            return
        starts = segment_starts(file.path, PART)
        if len(starts) < 2:
            self._warn(file)
            return
        for part, (start, end) in enumerate(zip(starts, [*starts[1:], -1], strict=True)):
            weight = (file.size if end < 0 else end) - (start if part else 0)
            yield ScanPart(source, number, part, start, end, scan), weight

    def _warn(self, file: InputFile) -> None:
        """Say once that a large file cannot be divided, and what would help."""
        if file.path not in self._warned and (what := describe_undivided(file.path, file.size)):
            self._warned.add(file.path)
            _log.warning("%s", what)

    def run(self, task: Task, root: Path) -> Result:
        """Cut some files, or search a part of one, and write a table."""
        work = task.payload
        if isinstance(work, ScanPart):
            path = self._inputs[work.source][work.file].path
            records = scan_part(path, work.start, work.end, work.scan)
            refuse_changed(self._inputs[work.source][work.file])
            name = f"{work.source:04d}-{work.file:06d}-{work.part:06d}"
            return Result([_write(root, name, PartTable(work.scan, records), 1)])
        files = {number: list(self._cut(root, work.source, number)) for number in work.files}
        shards = [shard for each in files.values() for shard in each]
        name = f"{work.source:04d}-{work.files[0]:06d}-{0:06d}"
        return Result([_write(root, name, ShardTable(files), len(shards)), *cached_outputs(shards)])

    def _cut(self, root: Path, source: int, number: int) -> Iterator[PlannedShard]:
        """Cut a file. Its first shard is not cached: reading that again costs no more than reading it from a cache."""
        file = self._inputs[source][number]
        for shard in self._readers[source].shards(file.path):
            name = f"{source:04d}-{number:06d}-{shard.index:06d}" if shard.index else ""
            yield without_data(shard, root, name)
        refuse_changed(file)

    def close(self) -> None:
        """Close the readers of this process."""
        if readers := self.__dict__.pop("_readers", None):
            for reader in readers:
                reader.close()
            forget_contents(self._contents)


def describe_undivided(path: str, size: int) -> str:
    """Return what to say of a file in one piece whose records several tasks could search if it had more pieces.

    Args:
        path: path or URL.
        size: stored bytes.

    Returns:
        the warning, with what would help; "" for a small file, and for a compression that has no pieces.

    Raises:
        ConfigError, MachineError: see `compression_of`.
    """
    if size < _LARGE or (kind := compression_of(path)) not in DIVIDE:
        return ""
    what = f"{path} is {kind} in one piece: one process decompresses it before the others begin"
    return f"{what}. To read it in parallel, {DIVIDE[kind]}"


def _write(root: Path, name: str, table: ShardTable | PartTable, rows: int) -> Output:
    data, path = msgspec.msgpack.encode(table), f"{TABLES}/{name}"
    write_atomic(root / path, data)
    return Output(path, rows, hashlib.sha256(data).hexdigest())


class CutInputs:
    """The shards that the stage `inputs` has cut.

    Args:
        root: directory of the corpus.
        receipts: the receipts of the stage.
    """

    def __init__(self, root: Path, receipts: list[Receipt]) -> None:
        self._root = root
        self._tables: dict[tuple[int, int], list[Output]] = {}
        tables = [output for output in list_outputs(receipts) if output.path.startswith(f"{TABLES}/")]
        for output in sorted(tables, key=lambda each: each.path):
            source, file, _ = map(int, Path(output.path).name.split("-"))
            self._tables.setdefault((source, file), []).append(output)
        self._loaded: tuple[int, dict[int, list[PlannedShard]]] = (-1, {})

    def shards(self, source: int, number: int, file: InputFile) -> Iterator[PlannedShard] | None:
        """Return the shards of a file of a source; None if the stage has not cut it. Files are asked for in order.

        Raises:
            DamagedError: a table is missing or damaged.
        """
        tables = self._tables.get((source, number), [])
        first = self._read(tables[0]) if tables else None
        if isinstance(first, PartTable):
            return cut_shards(file.path, file.size, first.scan, self._records(tables))
        if first is not None:
            self._loaded = source, first.files
        found = self._loaded[1].get(number) if self._loaded[0] == source else None
        return None if found is None else (_at(file.path, planned) for planned in found)

    def _records(self, tables: list[Output]) -> Iterator[PartRecords]:
        read = map(self._read, tables)
        return (table.records for table in takewhile(lambda table: isinstance(table, PartTable), read))  # type: ignore[union-attr]

    def _read(self, output: Output) -> ShardTable | PartTable:
        data = read_verified(self._root / output.path, output.sha256)
        return msgspec.msgpack.decode(data, type=ShardTable | PartTable)


def _at(path: str, planned: PlannedShard) -> PlannedShard:
    """Return a shard of the input at a path: an earlier run may have read the same input elsewhere."""
    return msgspec.structs.replace(planned, shard=msgspec.structs.replace(planned.shard, path=path))
