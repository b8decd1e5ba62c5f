"""Reader of JSON files that hold their records in one array."""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from typing import Any

import msgspec

from jprep.config import suggest_name
from jprep.corpus.document import Document, Reject
from jprep.corpus.readers.fields import FieldConfig, check_fields, get_field, make_document
from jprep.corpus.readers.record_reader import ErrorBudget, Item
from jprep.corpus.readers.whole_files import WholeFileConfig, WholeFileReader
from jprep.corpus.step import Positive
from jprep.errors import ConfigError, InputError

_EXCERPT_BYTES = 400


class JsonReader(WholeFileReader):
    """JSON, one document per object of an array. Ids: the field given by `id`, or `source:file:number`.

    The array is the whole file, or a field of the object that the file is. For JSON Lines there is the reader `jsonl`.
    """

    name = "json"
    version = 2
    meta_is_checked = True
    suffixes = (".json",)

    class Config(FieldConfig, frozen=True):
        """Options of the reader `json`.

        Attributes:
            shard_mb: without effect: a file is one shard.
            records: field of the array, such as `samples` or `data.items`; by default the only one that is an array of
                objects.
            max_record_mb: maximum size of a file in million bytes.
            max_ratio: maximum ratio of decompressed to compressed bytes, as protection from decompression bombs.
        """

        records: str = ""
        max_record_mb: Positive = WholeFileConfig().max_record_mb
        max_ratio: Positive = WholeFileConfig().max_ratio

    @property
    def ids_are_positions(self) -> bool:
        """Whether ids are positions; False if a field gives the ids."""
        return not self.config.id

    def _file_items(
        self, data: bytes, where: str, identity: str, source: str, budget: ErrorBudget
    ) -> Iterator[tuple[Item, Any]]:
        try:
            records = self._records(data, where)
        except InputError as error:
            budget.spend(error)
            yield self.reject(identity, "malformed_json", self.original(data[:_EXCERPT_BYTES])), data
            return
        check_fields(records, self.config, where, meta=self.meta_is_checked)
        for number, record in enumerate(records):
            yield self._item(record, f"{where}, record {number}", f"{identity}:{number}", source, budget), record

    def _records(self, data: bytes, where: str) -> list[Any]:
        try:
            value = msgspec.json.decode(data.removeprefix(codecs.BOM_UTF8))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            fix = 'name the reader "jsonl" if each line is an object; otherwise check the file (UTF-8, not cut off)'
            raise InputError(f"not JSON: {error}", where=where, fix=fix) from error
        found = get_field(value, self.config.records) if self.config.records else _only_array(value, where)
        if not isinstance(found, list):
            known = (
                [name for name, inner in value.items() if isinstance(inner, list)] if isinstance(value, dict) else []
            )
            fix = f"`records = ...`: {suggest_name(self.config.records, known)}"
            raise ConfigError(f"the file has no array {self.config.records!r}", where=where, fix=fix)
        return found

    def _item(self, record: object, where: str, identity: str, source: str, budget: ErrorBudget) -> Document | Reject:
        if not isinstance(record, dict):
            budget.spend(InputError("the record is not an object", where=where, fix="correct the file"))
            return self.reject(identity, "malformed_json", self.original(record))
        text = get_field(record, self.config.text)
        if not isinstance(text, str):
            return self.reject(identity, "no_text", self.original(record))
        return self.clean_document(make_document(record, text, self.config, identity, source))

    def original(self, record: object) -> str:
        """Return an object as JSON, or what is not JSON as text."""
        if isinstance(record, bytes):  # what is not JSON
            return record.decode("utf-8", "backslashreplace")
        return msgspec.json.encode(record).decode()


def _only_array(value: object, where: str) -> object:
    """Return the array of records of a file: the file itself, or its only field that is an array of objects."""
    if isinstance(value, list):
        return value
    fields = value.items() if isinstance(value, dict) else ()
    arrays = {
        name: inner for name, inner in fields if isinstance(inner, list) and all(isinstance(e, dict) for e in inner)
    }
    if len(arrays) != 1:
        names = ", ".join(sorted(arrays)) or "none"
        what = f"expected an array of objects, or an object with one such field (found: {names})"
        raise ConfigError(what, where=where, fix='name the field, e.g. records = "samples"')
    return next(iter(arrays.values()))
