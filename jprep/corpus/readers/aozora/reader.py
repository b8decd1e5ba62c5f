"""Reader of Aozora Bunko: one text file, or each text file of a .zip, is a document."""

from __future__ import annotations

import io
import re
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from typing import Literal

from jprep.corpus.document import Document
from jprep.corpus.readers import encoding
from jprep.corpus.readers.aozora.markup import describe, divide, plain_text
from jprep.corpus.readers.chunking import record_too_large
from jprep.corpus.readers.detection import detect_encoding
from jprep.corpus.readers.record_reader import MB, ErrorBudget, Item, RecordReader, id_prefix
from jprep.corpus.step import Positive, Shard, Share, StepConfig
from jprep.errors import InputError
from jprep.io.inputs.limits import DOWNLOAD_AGAIN, MAX_RATIO, BombGuard
from jprep.io.inputs.paths import size_of
from jprep.io.inputs.streams import is_plain, open_input

_ZIP = b"PK\x03\x04"
_DAMAGED = (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError, EOFError, ValueError)
_WORK = re.compile(r"(\d+)_(?:ruby|txt)_\d+")


class AozoraReader(RecordReader):
    """Text files of Aozora Bunko, plain or in .zip. Ids: `source:file`, in a .zip `source:file:member`."""

    name = "aozora"
    version = 1
    can_keep_text = False  # it interprets markup

    class Config(StepConfig, frozen=True):
        """Options of the reader `aozora`.

        Attributes:
            encoding: encoding of the files; `detect` finds out the one of each file.
            max_bad: maximum fraction of files in a .zip that cannot be decoded; 1 rejects all such files.
            max_record_mb: maximum size of a file in million bytes.
            max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
        """

        encoding: Literal["detect", "cp932", "shift_jis", "euc_jis_2004", "utf-8"] = "detect"
        max_bad: Share = 0.0
        max_record_mb: Positive = 64.0
        max_ratio: Positive = MAX_RATIO

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are unique by themselves: they are the names of files."""
        return True

    def shards(self, path: str) -> Iterator[Shard]:
        """Return one shard for the file.

        Raises:
            InputError: the file is too large, or damaged.
        """
        if is_plain(path):
            size = size_of(path) or 0
            yield Shard(path, 0, 0, size, weight=size)
            return
        data = self._content(path)
        yield Shard(path, 0, 0, len(data), weight=len(data), data=data)

    def _content(self, path: str) -> bytes:
        limit = int(self.config.max_record_mb * MB)
        with open_input(path, max_ratio=self.config.max_ratio) as stream:
            data = stream.read(limit + 1)
        if len(data) > limit:
            raise record_too_large(path, 0, limit)
        return data

    def _items(self, shard: Shard, source: str, budget: ErrorBudget) -> Iterator[tuple[Item, bytes]]:
        data = self._content(shard.path) if shard.data is None else shard.data
        prefix = id_prefix(shard, source)
        if not data.startswith(_ZIP):
            yield self._item(data, shard.path, prefix, source, budget), data
            return
        for name, member in self._members(data, shard.path):
            yield self._item(member, f"{shard.path}, member {name}", f"{prefix}:{name}", source, budget), member

    def _members(self, data: bytes, path: str) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the text files of a .zip, in its order. A repeated name gets a number."""
        guard, produced, seen = BombGuard(path, self.config.max_ratio), 0, Counter[str]()
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                for info in archive.infolist():
                    if info.filename.lower().endswith(".txt"):
                        content = self._member(archive, info, path)
                        produced += len(content)
                        guard.check(len(data), produced)
                        name = self._clean(info.filename).replace("\n", " ")
                        seen[name] += 1
                        yield (name if seen[name] == 1 else f"{name}#{seen[name]}"), content
        except _DAMAGED as error:
            raise InputError(f"the .zip is damaged: {error}", where=path, fix=DOWNLOAD_AGAIN) from error

    def _member(self, archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> bytes:
        limit = int(self.config.max_record_mb * MB)
        with archive.open(info) as member:
            content = member.read(limit + 1)
        if len(content) > limit:
            raise record_too_large(f"{path}, member {info.filename}", 0, limit)
        return content

    def _item(self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget) -> Item:
        name = self._encoding_of(data)
        try:
            text = data.decode(name)
        except UnicodeDecodeError as error:
            budget.spend(encoding.undecodable(f"{where}, byte {error.start}", error, option=True))
            reason = f"invalid_{name.replace('-', '')}"
            return self._reject(identity, reason, f"byte {error.start}: {encoding.excerpt_around(error)}")
        return self._document(self._parsed(text, identity, source))

    def _encoding_of(self, data: bytes) -> str:
        if self.config.encoding != "detect":
            return str(self.config.encoding)
        return detect_encoding(data) or "cp932"

    def _parsed(self, text: str, identity: str, source: str) -> Document:
        parts = divide(self._clean(text.removeprefix("\ufeff")))
        header = [plain_text(line, parts.legend, self.tally) for line in parts.header]
        meta = describe(header)
        title = meta.pop("title", "")
        self.tally["colophon.moved" if parts.colophon else "colophon.none"] += 1
        if parts.colophon:
            meta["colophon"] = parts.colophon
        if work := _WORK.search(identity):
            meta["work"] = work[1]
        return Document(identity, source, title, "", plain_text(parts.body, parts.legend, self.tally), meta=meta)

    def _original(self, record: bytes) -> str:
        return record.decode(self._encoding_of(record), "backslashreplace")
