"""Base class of readers whose records are whole files, plain, compressed, or in .zip archives."""

from __future__ import annotations

import io
import zipfile
import zlib
from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

from jprep.corpus.readers.archives import TAR_HEAD, refuse_tar
from jprep.corpus.readers.record_reader import MB, ErrorBudget, Item, RecordReader
from jprep.corpus.step import Positive, Shard, Share, StepConfig
from jprep.errors import InputError, Setting
from jprep.io.inputs.limits import DOWNLOAD_AGAIN, MAX_RATIO, BombGuard
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import is_plain, open_input

_ZIP = b"PK\x03\x04"
_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError)


class WholeFileConfig(StepConfig, frozen=True):
    """Options of all readers of whole files.

    Attributes:
        max_bad: maximum fraction of damaged files in a .zip, or of damaged records in a file; 1 rejects all such.
        max_record_mb: maximum size of a file in million bytes.
        max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
    """

    max_bad: Share = 0.0
    max_record_mb: Positive = 64.0
    max_ratio: Positive = MAX_RATIO


def whole_file_shard(path: str, content: Callable[[str], bytes]) -> Shard:
    """Return the shard of a file, with its content unless workers can read that themselves."""
    if is_plain(path):
        size = size_of(path) or 0
        return Shard(path, 0, 0, size, weight=size)
    data = content(path)
    return Shard(path, 0, 0, len(data), weight=len(data), data=data)


def read_whole(path: str, limit: int, max_ratio: float, option: str = "max_record_mb") -> bytes:
    """Return the decompressed content of a file.

    Args:
        path: path of the file.
        limit: maximum size in bytes.
        max_ratio: maximum ratio of decompressed to compressed bytes.
        option: option that sets the limit, for the error.

    Raises:
        InputError: it is larger, or damaged, or a tar archive.
    """
    with open_input(path, max_ratio=max_ratio) as stream:
        data = stream.read(limit + 1)
    refuse_tar(data[:TAR_HEAD], path)
    if len(data) > limit:
        raise _file_too_large(path, limit, option)
    return data


def _file_too_large(where: str, limit: int, option: str) -> InputError:
    what, fix = f"the file is larger than {limit / MB:g} MB", f"divide it, or raise `{option}`"
    return InputError(what, where=where, fix=fix, setting=Setting(option))


class WholeFileReader(RecordReader):
    """A reader that makes one shard of each file. Ids: `source:file`, in a .zip `source:file:member`.

    Attributes:
        suffixes: endings of the members of a .zip that are read, in lower case.
    """

    suffixes: ClassVar[tuple[str, ...]]

    class Config(WholeFileConfig, frozen=True):
        """Options of all readers of whole files."""

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are unique by themselves: they are the names of files."""
        return True

    def shards(self, path: str) -> Iterator[Shard]:
        """Return one shard for the file.

        Raises:
            InputError: the file is too large, or damaged.
        """
        yield whole_file_shard(path, self._content)

    @abstractmethod
    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, Any]]:
        """Yield the records of one file as items, each with the record as `original` takes it.

        Args:
            data: content of the file.
            where: its place, for errors.
            identity: id of a document that is the whole file.
            source: name of the source.
            budget: takes the errors of bad records, which become rejects.
        """

    def items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, Any]]:
        """Yield the records of a file, or of the members of a zip archive."""
        data = self._content(shard.path) if shard.data is None else shard.data
        prefix = shard.id_prefix(source)
        if not data.startswith(_ZIP):
            yield from self._file_items(data, shard.path, prefix, source, budget)
            return
        for name, member in self._members(data, shard.path):
            where, identity = f"{shard.path}, member {name}", f"{prefix}:{name}"
            yield from self._file_items(member, where, identity, source, budget)

    def _content(self, path: str) -> bytes:
        return read_whole(path, int(self.config.max_record_mb * MB), self.config.max_ratio)

    def _members(self, data: bytes, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the members of a .zip to read, in its order. A repeated name gets a number."""
        guard, produced, seen = BombGuard(path, self.config.max_ratio), 0, Counter[str]()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for info in archive.infolist():
                    if info.filename.lower().endswith(self.suffixes):
                        content = self._member(archive, info, path)
                        produced += len(content)
                        guard.check(len(data), produced)
                        name = self._clean(info.filename).replace("\n", " ")
                        seen[name] += 1
                        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), content
                    elif not info.is_dir():
                        self.tally["members.skipped"] += 1
        except _DAMAGED as error:
            raise InputError(f"the .zip is damaged: {error}", where=path, fix=DOWNLOAD_AGAIN) from error

    def _member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
        limit = int(self.config.max_record_mb * MB)
        with archive.open(info) as member:
            content = member.read(limit + 1)
        if len(content) > limit:
            raise _file_too_large(f"{path}, member {info.filename}", limit, "max_record_mb")
        return content
