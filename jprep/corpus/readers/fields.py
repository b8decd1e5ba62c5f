"""Read fields of nested records (JSON objects, Parquet rows) by dotted names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from jprep.config import similar_name, suggest_name
from jprep.corpus.document import Document
from jprep.corpus.readers.record_reader import RecordConfig
from jprep.errors import ConfigError, Setting

_SEPARATORS = ("\t", ";", ",")
_OPTIONAL = ("title", "url", "meta")
_SAMPLE = 100  # records without a field that some documents may lack, until it is taken for a wrong name


class FieldConfig(RecordConfig, frozen=True):
    """The fields of a record to read. A dotted name (`page.title`) selects a field of a nested object.

    Attributes:
        text: field of the text.
        id: field of an identifier that is unique in the source (the build warns of repeated ids); "" uses the position
            of the record.
        title: field of the title, or "".
        url: field of the address, or "".
        meta: fields to store in the document's `meta`, under the names given here.
    """

    text: str = "text"
    id: str = ""
    title: str = ""
    url: str = ""
    meta: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """Return the names of all fields to read."""
        return [name for _, name in self.named()]

    def named(self) -> list[tuple[str, str]]:
        """Return the option and the name of each field to read."""
        single = [("text", self.text), ("id", self.id), ("title", self.title), ("url", self.url)]
        return [(option, name) for option, name in (*single, *(("meta", name) for name in self.meta)) if name]


def get_field(record: object, name: str) -> Any:
    """Return the value of a field, or UNSET if it does not exist. A field whose own name has the dots goes first."""
    own = record.get(name, msgspec.UNSET) if isinstance(record, Mapping) else msgspec.UNSET
    if own is not msgspec.UNSET:
        return own
    for part in name.split("."):
        record = record.get(part, msgspec.UNSET) if isinstance(record, Mapping) else msgspec.UNSET
    return record


def check_fields(records: Sequence[object], config: FieldConfig, where: str, *, meta: bool = True) -> None:
    """Refuse a field to read that no record has; records that are not objects are skipped.

    Documents may lack a title, an address and fields of `meta`: these are refused from a hundred records on.

    Args:
        records: the first records of a file.
        config: the fields to read.
        where: the file.
        meta: whether the fields of `meta` are checked, too.

    Raises:
        ConfigError: no object has one of the fields.
    """
    objects = [record for record in records if isinstance(record, Mapping)]
    for option, name in config.named():
        if (option == "meta" and not meta) or (option in _OPTIONAL and len(objects) < _SAMPLE):
            continue
        if objects and all(get_field(record, name) is msgspec.UNSET for record in objects):
            lengths = Counter[str]()
            for record in objects:
                lengths.update(_text_lengths(record))
            raise missing_field(f"no object has the field {name!r}", where, config, option, name, lengths)


def missing_field(
    what: str, where: str, config: FieldConfig, option: str, name: str, lengths: Mapping[str, int]
) -> ConfigError:
    """Return the error for a field that does not exist; it names the option, and a similar or the known names.

    Args:
        what: what is wrong.
        where: the file.
        config: the fields to read.
        option: the option that names the field.
        name: the field.
        lengths: length of the texts of each known field, by name; 0 for other values.
    """
    better = similar_name(name, lengths)
    if not better and option == "text" and any(lengths.values()):
        better = max(sorted(lengths), key=lambda each: lengths[each])
    value = [better if each == name else each for each in config.meta] if option == "meta" else better
    fix = f"`{option} = ...`: {suggest_name(name, lengths)}"
    return ConfigError(what, where=where, fix=fix, setting=Setting(option, value) if better else None)


class OtherSeparator(NamedTuple):
    """What separates the columns of a table that seems to have one column.

    Attributes:
        mark: the separator.
        what: what is wrong, for an error.
    """

    mark: str
    what: str


def other_separator(names: Sequence[str], separator: str) -> OtherSeparator | None:
    """Return what separates the columns of a table that has one column by a separator; None if nothing seems to."""
    for mark in _SEPARATORS if len(names) == 1 else ():
        if mark != separator and mark in names[0]:
            what = f"one column found, {names[0]!r}: its separator is {mark!r}, not {separator!r}"
            return OtherSeparator(mark, what)
    return None


def _text_lengths(record: Mapping[str, Any]) -> dict[str, int]:
    """Return the lengths of the texts in a record by the names of the fields, and of the fields of objects in it."""
    lengths = dict[str, int]()
    for name, value in record.items():
        inner = value if isinstance(value, Mapping) else {}
        fields = {name: value} | {f"{name}.{below}": each for below, each in inner.items()}
        lengths |= {field: len(each) if isinstance(each, str) else 0 for field, each in fields.items()}
    return lengths


def make_document(record: object, text: str, config: FieldConfig, identity: str, source: str) -> Document:
    """Return the document of a record.

    Args:
        record: nested mappings.
        text: text of the record.
        config: the fields to read.
        identity: id of the document if no field gives one.
        source: name of the source.
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
    """Return a value as text: strings unchanged, missing values as "", other values as JSON."""
    if value is None or value is msgspec.UNSET:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
