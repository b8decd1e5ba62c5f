"""Reader of Aozora Bunko: one text file, or each text file of a .zip, is a document."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from jprep.corpus.document import Document
from jprep.corpus.readers import encoding
from jprep.corpus.readers.aozora.markup import describe, divide, plain_text
from jprep.corpus.readers.detection import detect_encoding
from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.whole_files import WholeFileReader
from jprep.corpus.step import Positive, Share, StepConfig
from jprep.io.inputs.limits import MAX_RATIO

_WORK = re.compile(r"(\d+)_(?:ruby|txt)_\d+")


class AozoraReader(WholeFileReader):
    """Text files of Aozora Bunko, plain or in .zip. Ids: `source:file`, in a .zip `source:file:member`."""

    name = "aozora"
    version = 4
    suffixes = (".txt",)

    class Config(StepConfig, frozen=True):
        """Options of the reader `aozora`.

        Attributes:
            encoding: encoding of the files; `detect` finds out the one of each file.
            max_bad: maximum fraction of files in a .zip that cannot be decoded; 1 rejects all such files.
            max_record_mb: maximum size of a file in million bytes.
            max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
        """

        encoding: Literal["detect", "cp932", "shift_jis", "shift_jis_2004", "euc_jis_2004", "utf-8"] = "detect"
        max_bad: Share = 0.0
        max_record_mb: Positive = 64.0
        max_ratio: Positive = MAX_RATIO

    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, bytes]]:
        yield self._item(data, where, identity, source, budget), data

    def _item(self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget) -> Item:
        name = self._encoding_of(data)
        try:
            text = data.decode(name)
        except UnicodeDecodeError as error:
            detects, place = self.config.encoding != "detect", f"{where}, byte {error.start}"
            budget.spend(encoding.undecodable(place, error, option=True, detects=detects))
            reason = f"invalid_{name.replace('-', '')}"
            return self.reject(identity, reason, f"byte {error.start}: {encoding.excerpt_around(error)}")
        return self.clean_document(self._parsed(text, identity, source))

    def _encoding_of(self, data: bytes) -> str:
        if self.config.encoding != "detect":
            return str(self.config.encoding)
        return detect_encoding(data, also=("shift_jis_2004",)) or "cp932"

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

    def original(self, record: bytes) -> str:
        """Return the decoded text of a file."""
        return record.decode(self._encoding_of(record), "backslashreplace")
