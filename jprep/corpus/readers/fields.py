"""Fields of nested records (JSON objects, Parquet rows) by dotted names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from jprep.corpus.document import Document
from jprep.corpus.readers.record_reader import RecordConfig


class FieldConfig(RecordConfig, frozen=True):
    """Which fields make a document; a dotted name (`page.title`) reaches into nested objects.

    Attributes:
        text: the field that holds the text.
        id: the field that holds an identifier, unique in the source (documents that share one are counted, and the
            build warns); "" numbers the records by their place.
        title: the field that holds a title, or "".
        url: the field that holds an address, or "".
        meta: fields to keep as the document's `meta`, under their names here.
    """

    text: str = "text"
    id: str = ""
    title: str = ""
    url: str = ""
    meta: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """All fields that are read."""
        return [name for name in (self.text, self.id, self.title, self.url, *self.meta) if name]


def get_field(record: object, name: str) -> Any:
    """The value of a field, UNSET where there is none."""
    for part in name.split("."):
        record = record.get(part, msgspec.UNSET) if isinstance(record, Mapping) else msgspec.UNSET
    return record


def make_document(record: object, text: str, config: FieldConfig, identity: str, source: str) -> Document:
    """The document that a record's fields make.

    Args:
        record: nested mappings.
        text: its text.
        config: which fields to take.
        identity: its id, where no field gives one.
        source: the name of its source.
    """
    own = _plain(get_field(record, config.id)) if config.id else ""
    meta = {name: value for name in config.meta if (value := _plain(get_field(record, name)))}
    return Document(
        id=f"{source}:{own}" if own else identity,
        source=source,
        title=_plain(get_field(record, config.title)) if config.title else "",
        url=_plain(get_field(record, config.url)) if config.url else "",
        text=text,
        meta=meta,
    )


def _plain(value: Any) -> str:
    """A value as text: strings as they are, nothing as "", the rest as JSON."""
    if value is None or value is msgspec.UNSET:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
