"""Read the items of test sets with the corpus readers."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from jprep.config import suggest_name
from jprep.corpus.config import DecontaminateConfig, make_step, step_name
from jprep.corpus.document import Document
from jprep.corpus.input_files import InputFile, refuse_changed
from jprep.corpus.readers.json_records import JsonReader
from jprep.corpus.readers.lines import JsonlReader
from jprep.corpus.step import Reader, describe_step
from jprep.errors import ConfigError, InputError
from jprep.io.inputs.paths import short_names

VERSION = 2
"""Raise it when other documents are found."""

_READERS = ("jsonl", "json", "parquet", "tsv", "csv")
_TABLES = ("tsv", "csv")  # their columns have no fields inside
_COMPRESSED = (".gz", ".bz2", ".xz", ".zst")
_MOST = 100_000_000  # characters of all test sets: the index has about 65 bytes for each


class Item(NamedTuple):
    """An item of a test set.

    Attributes:
        id: the test set, and the item's identifier or its file and position.
        parts: the texts that are looked for.
        reject: why the reader rejected it, e.g. `no_text`; "" if the item is looked for.
    """

    id: str
    parts: tuple[str, ...]
    reject: str = ""


def describe_test_sets(
    sets: Sequence[DecontaminateConfig], files: Sequence[Sequence[InputFile]]
) -> dict[str, dict[str, Any]]:
    """Return the fingerprint fields of decontamination; none if there is no test set.

    Raises:
        ConfigError: a file has an unknown form, or is a pipe.
    """
    if not sets:
        return {}
    described = [
        {"name": each.name, "action": each.action, "reader": [describe_step(_reader(each, file)) for file in own]}
        | {"files": [file.public() for file in own]}
        for each, own in zip(sets, files, strict=True)
    ]
    return {"decontaminate": {"version": VERSION, "test_sets": described}}


def read_test_sets(sets: Sequence[DecontaminateConfig], files: Sequence[Sequence[InputFile]]) -> list[list[Item]]:
    """Read the items of each test set.

    Raises:
        ConfigError: a field does not exist.
        InputError: a file is malformed, or the test sets are larger than what is searched for.
    """
    found, size = list[list[Item]](), 0
    for config, own in zip(sets, files, strict=True):
        found.append([])
        names = short_names([file.path for file in own])
        for file in own:
            for item in _items(config, file, names[file.path]):
                found[-1].append(item)
                size += sum(map(len, item.parts))
                _refuse_large(size, file)
            refuse_changed(file)
    return found


def _refuse_large(size: int, file: InputFile) -> None:
    if size > _MOST:
        fix = "name fewer fields, or build from fewer test sets"
        raise InputError(f"the test sets have more than {_MOST:,} characters", where=file.path, fix=fix)


def _items(config: DecontaminateConfig, file: InputFile, name: str) -> Iterator[Item]:
    reader, seen = _reader(config, file), set[str]()
    try:
        for shard in reader.shards(file.path):
            shard = msgspec.structs.replace(shard, hints=shard.hints | {"name": name})
            for item in reader.read(shard, config.name):
                if isinstance(item, Document):
                    seen |= item.meta.keys()
                    yield Item(item.id, tuple(_parts(item, config.fields[1:], reader.name)))
                else:
                    yield Item(item.id, (), item.reason)
        _refuse_absent(config, file, reader, seen)
    finally:
        reader.close()


def _parts(doc: Document, others: Sequence[str], reader: str) -> Iterator[str]:
    """Yield the texts of an item; those of a list one by one."""
    yield doc.text
    for name in others:
        top, _, inner = (name, "", "") if reader in _TABLES else name.partition(".")
        if not (value := doc.meta.get(top, "")):
            continue
        decoded = _decoded(value) if inner or value.startswith("[") else value
        yield from _texts(decoded, inner.split(".") if inner else [])


def _decoded(value: str) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return value


def _texts(value: Any, path: Sequence[str]) -> Iterator[str]:
    """Yield the texts under a path in nested objects and lists; numbers as text."""
    if isinstance(value, list):
        for inner in value:
            yield from _texts(inner, path)
    elif path:
        yield from _texts(value.get(path[0]), path[1:]) if isinstance(value, Mapping) else ()
    elif value is not None:
        yield value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _refuse_absent(config: DecontaminateConfig, file: InputFile, reader: Reader, seen: Collection[str]) -> None:
    """Refuse a field that no item has: without it, other documents would be found."""
    for name in config.fields[1:]:
        if _top(name, reader.name) in seen:
            continue
        records = (text for shard in reader.shards(file.path) for _, text in reader.read_with_originals(shard, ""))
        first = _decoded(next(records, ""))
        if isinstance(first, dict) and _top(name, reader.name) not in first:
            what = f"corpus.decontaminate {config.name!r}: no item has the field {name!r}"
            raise ConfigError(what, where=file.path, fix=f"`fields = [...]`: {suggest_name(name, first)}")


def _top(name: str, reader: str) -> str:
    """Return the field of a record that has a field."""
    return name if reader in _TABLES else name.partition(".")[0]


def _reader(config: DecontaminateConfig, file: InputFile) -> Reader:
    if file.is_pipe:
        fix = "write the test set to a file: it is hashed before it is read"
        raise ConfigError("a test set cannot be a pipe", where=f"corpus.decontaminate {config.name!r}", fix=fix)
    ref = config.reader or _by_name(file)
    options = {} if isinstance(ref, str) else ref
    first, *others = config.fields
    others = list(dict.fromkeys(_top(name, step_name(ref)) for name in others))
    fields = {"use": step_name(ref), "text": first, "meta": others, "id": config.id}
    reader: Reader = make_step("reader", options | fields)
    if isinstance(reader, JsonlReader | JsonReader):
        reader.meta_is_checked = False  # `_refuse_absent` looks at all items, and names the option `fields`
    return reader


def _by_name(file: InputFile) -> str:
    name = file.name.lower()
    for suffix in _COMPRESSED:
        name = name.removesuffix(suffix)
    kind = name.rpartition(".")[2]
    if kind not in _READERS:
        known = ", ".join(f".{each}" for each in _READERS)
        fix = f'name the reader, e.g. reader = "jsonl" (known by their suffix: {known})'
        raise ConfigError("unknown kind of test set", where=file.path, fix=fix)
    return kind
