"""Find the part of a source's inputs that a file of a corpus was made from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import msgspec

from jprep.corpus.input_files import InputFile, contents_by_path
from jprep.corpus.originals.input_search import InputSearch
from jprep.corpus.originals.records import Reason, Unavailable
from jprep.corpus.stages.planned_shards import PlannedShard, group_shards
from jprep.corpus.step import Reader, Shard
from jprep.errors import JprepError
from jprep.io.inputs.content_check import expect_contents, forget_contents
from jprep.io.inputs.paths import short_names


class TaskShards:
    """The shards of a source, by the number of the task that read them.

    Shards are numbered from the beginning of the source: all inputs before a shard are hashed and cut into shards. Its
    documents are read by whoever asks for them.

    Args:
        reader: the reader of the source.
        entries: the source's files in the manifest: name, size, SHA-256.
        search: looks for the files.

    Attributes:
        problem: why the shards after the last known one cannot be listed, or None.
    """

    def __init__(self, reader: Reader, entries: Sequence[Mapping[str, Any]], search: InputSearch) -> None:
        self._reader, self._entries, self._search = reader, entries, search
        self._files: dict[int, InputFile | Unavailable] = {}
        self._known: dict[int, list[Shard]] = {}
        self._groups: Iterator[list[PlannedShard]] = iter(())
        self._next = -1
        self.problem: Unavailable | None = None

    def shards(self, task: int) -> list[Shard]:
        """Return the shards of a task; none if there is no such task or if `problem` prevents listing them.

        Shards that hold their bytes (of compressed inputs) are not kept: they are cut again for an earlier task.
        """
        if task in self._known:
            return self._known[task]
        if self._next < 0 or task < self._next:
            self._groups, self._next, self.problem = group_shards(map(PlannedShard, self._all())), 0, None
        for planned in self._groups:
            group = [each.shard for each in planned]
            number, self._next = self._next, self._next + 1
            if all(shard.data is None for shard in group):
                self._known[number] = group
            if number == task:
                return group
        return []

    def files(self, shards: Sequence[Shard]) -> list[InputFile]:
        """Return the inputs of some shards."""
        paths = {shard.path for shard in shards}
        return [file for file in self._found if file.path in paths]

    @contextlib.contextmanager
    def compared(self) -> Iterator[None]:
        """Compare what is read of the inputs in this block with their hashes."""
        expect_contents(contents_by_path(self._found))
        try:
            yield
        finally:
            forget_contents(contents_by_path(self._found))

    @property
    def _found(self) -> list[InputFile]:
        return [file for file in self._files.values() if isinstance(file, InputFile)]

    def _all(self) -> Iterator[Shard]:
        """Yield all shards up to the first input that is missing, which is left as the problem."""
        for number in range(len(self._entries)):
            file = self._file(number)
            if isinstance(file, Unavailable):
                self.problem = file
                return
            expect_contents(contents_by_path([file]))
            name = {"name": self._names[number]}
            try:
                for shard in self._reader.shards(file.path):
                    yield msgspec.structs.replace(shard, hints=shard.hints | name)
            except JprepError as error:
                self.problem = Unavailable(
                    Reason.UNREADABLE, f"cannot read the input {file.path}: {error.what}", error.fix
                )
                return

    def _file(self, number: int) -> InputFile | Unavailable:
        if number not in self._files:
            self._files[number] = self._search.find(self._entries[number])
        return self._files[number]

    @cached_property
    def _names(self) -> list[str]:
        """The short names of the inputs, as they stand in ids."""
        names = [entry["name"] for entry in self._entries]
        if len(set(short_names(names).values())) == len(set(names)) == len(names):
            return list(map(short_names(names).__getitem__, names))
        files = [self._file(number) for number in range(len(names))]  # their directories are a part of the names
        paths = [name if isinstance(file, Unavailable) else file.path for name, file in zip(names, files, strict=True)]
        return list(map(short_names(paths).__getitem__, paths))
