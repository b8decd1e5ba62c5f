"""Look at the input files of a starter recipe: their format, how much text they hold, and which field has it."""

from __future__ import annotations

import contextlib
import csv
import itertools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from jprep.corpus.readers.archives import is_spreadsheet, refuse_tar, spreadsheet_error
from jprep.corpus.readers.fields import other_separator
from jprep.errors import ConfigError, JprepError
from jprep.io.inputs.paths import all_exist, expand_patterns, is_local
from jprep.io.inputs.streams import can_seek, is_plain, open_input
from jprep.pipeline.starter.encodings import as_utf8, encoding_of, encoding_option, find_encodings
from jprep.pipeline.starter.formats import READERS, files_in, refuse_other_formats, suffix_of
from jprep.tokenizer.suggested_size import count_alphabet
from jprep.toml_values import toml

HUB = "hf://datasets/"
_HEAD = 1 << 20  # bytes of the first file that are looked at
_SHORT_HEAD = 1 << 16  # bytes of others, for their encodings
_LOOKED_AT = 100  # the most files whose encoding is looked at
_COUNTED = 200  # the most small files whose characters are counted
_LEAST_COUNTED = 1 << 14  # bytes of each of them
_HEAD_ROWS = 1_000  # of a Parquet file
_LONGEST_LINE = 1 << 26  # bytes of the first record that are read to find its fields
_LONGEST_NAME = 1000  # characters of a column's name
_COMPRESSED = 3  # about how much larger text is than its compressed file
_FEW_FILES = 20  # fewer text files than this are divided into smaller documents
TEXT_FIELDS = ("text", "content", "body", "document", "article", "sentence", "本文", "テキスト", "文章")


class InputSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What input files are.

    Attributes:
        paths: patterns of the files, as the recipe names them.
        reader: the reader, with its options.
        size: bytes of text, about; 0 where that is not known.
        documents: number of documents, about; 0 where that is not known.
        alphabet: number of characters that cover all but one in 2,000 of the beginning, of several files if they are
            small (of Parquet, of the first file); 0 where that is not known.
    """

    paths: tuple[str, ...]
    reader: str | dict[str, Any]
    size: int = 0
    documents: int = 0
    alphabet: int = 0


class DumpLayout(NamedTuple):
    """How the files of a published corpus hold documents.

    Attributes:
        mark: what each document has once.
        text_share: bytes of text for a byte of the decompressed file, about.
    """

    mark: bytes
    text_share: float


DUMPS = {"wikipedia": DumpLayout(b"<page>", 0.6), "cc100": DumpLayout(b"\n\n", 1.0)}


def hub_pattern(text: str) -> str:
    """Return the URL of files on the Hub: `ORG/NAME` stands for all Parquet files of a dataset.

    Raises:
        ConfigError: it names no dataset.
    """
    parts = text.removeprefix(HUB).strip("/").split("/")
    if (not is_local(text) and not text.startswith(HUB)) or len(parts) < 2 or not all(parts):
        fix = f"ORG/NAME, or {HUB}ORG/NAME/PATH-*.parquet"
        raise ConfigError("this names no dataset on the Hub", where=text, fix=fix)
    return HUB + "/".join(parts if len(parts) > 2 else [*parts, "**", "*.parquet"])


def hub_inputs(inputs: Sequence[str], text_field: str) -> InputSummary:
    """Return the summary of a dataset on the Hub, which is not looked at."""
    reader = {"use": _reader_of(list(inputs)), "text": text_field or TEXT_FIELDS[0]}
    return InputSummary(paths=tuple(inputs), reader=reader)


def local_inputs(patterns: Sequence[str], text_field: str = "") -> InputSummary:
    """Look at local files; URLs are accepted, and not looked at.

    Args:
        patterns: files, patterns, or directories with files of one format.
        text_field: the field of records that has the text; "" finds it.

    Raises:
        ConfigError: nothing matches, the files have several formats or one that is not read here, or no field can be
            the text.
        MachineError, InputError: one of the first files cannot be read.
    """
    named = [name for pattern in patterns for name in files_in(pattern)]
    paths = expand_patterns(named)
    reader = _reader_of(paths)
    if not all(map(is_local, paths)):
        refuse_other_formats(paths if reader == "text" else [])
        options = {} if reader == "text" else {"text": text_field or TEXT_FIELDS[0]}
        return InputSummary(paths=tuple(named), reader={"use": reader, **options})
    look = {"parquet": _look_at_parquet, "text": _look_at_text}.get(reader, _look_at_records)
    return look(tuple(named), paths, reader, text_field)


def dump_inputs(patterns: Sequence[str], reader: dict[str, Any], layout: DumpLayout) -> InputSummary:
    """Look at local files of a published corpus; its size is unknown if one is remote, a pipe, or not there yet.

    Args:
        patterns: files, patterns or URLs.
        reader: the reader, with its options.
        layout: how such files hold documents.

    Raises:
        MachineError, InputError: the first file cannot be read.
    """
    if not (all(map(is_local, patterns)) and all_exist(patterns)):
        return InputSummary(paths=tuple(patterns), reader=reader)
    paths = expand_patterns(patterns)
    if not all(map(can_seek, paths)):
        return InputSummary(paths=tuple(patterns), reader=reader)
    size, head = _size(paths, layout.text_share), _head(paths[0])
    return InputSummary(
        paths=tuple(patterns),
        reader=reader,
        size=size,
        documents=_scaled(head.count(layout.mark), head, round(size / layout.text_share)),
        alphabet=_alphabet(head),
    )


def _reader_of(paths: list[str]) -> str:
    found = {READERS.get(suffix_of(path), "text") for path in paths}
    if len(found) > 1:
        fix = "give files of one format, and add the others to the recipe as further sources"
        raise ConfigError(f"the files have several formats: {', '.join(sorted(found))}", where="--input", fix=fix)
    return found.pop() if found else "text"


def _look_at_text(named: tuple[str, ...], paths: list[str], reader: str, _: str) -> InputSummary:
    """Choose what a document is: few files are divided at blank lines, or else at every line."""
    path = _first_with_bytes(paths)
    stored, head = _size(paths), _head(path)
    refuse_other_formats(paths, head)
    text = _utf8(head, len(head) < _HEAD)
    many, lines = len(paths) >= _FEW_FILES, text.replace(b"\r\n", b"\n").strip()
    separator = ("blank_line", b"\n\n") if b"\n\n" in lines else ("line", b"\n")
    option = encoding_option(_encodings(paths, path, head), reader, whole_files=many)
    return InputSummary(
        paths=named,
        reader={"use": reader, "documents": "file" if many else separator[0], **option},
        size=_scaled(len(text), head, stored) if option else stored,
        documents=len(paths) if many else _scaled(lines.count(separator[1]) + 1, head, stored),
        alphabet=_alphabet(text, *itertools.starmap(_utf8, _other_beginnings(paths, path, head))),
    )


def _look_at_records(named: tuple[str, ...], paths: list[str], reader: str, text_field: str) -> InputSummary:
    path = _first_with_bytes(paths)
    stored, head = _size(paths), _head(path)
    if not head:
        raise ConfigError("the file is empty", where=path, fix="leave it out")
    encoding = encoding_of(head, complete=len(head) < _HEAD)
    option = encoding_option(_encodings(paths, path, head), reader)
    first = _first_line(path, encoding)
    fields = _json_fields(first, path) if reader == "jsonl" else _header_fields(first, reader, path)
    chosen = _text_field(fields, text_field, path)

    def texts_of(beginning: bytes, whole: bool) -> bytes:
        return _json_texts(beginning, chosen, whole=whole) if reader == "jsonl" else _utf8(beginning, whole)

    texts, others = texts_of(head, len(head) < _HEAD), _other_beginnings(paths, path, head)
    return InputSummary(
        paths=named,
        reader={"use": reader, "text": chosen, **option},
        size=_scaled(len(texts), head, stored) if texts and (option or reader == "jsonl") else stored,
        documents=_scaled(head.count(b"\n") or 1, head, stored),
        alphabet=_alphabet(texts or head, *(texts_of(*each) or each[0] for each in others)),
    )


def _look_at_parquet(named: tuple[str, ...], paths: list[str], reader: str, text_field: str) -> InputSummary:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(paths[0]) as file:
            fields, rows = file.schema_arrow.names, file.metadata.num_rows
            chosen = _text_field(fields, text_field, paths[0])
            head = next(file.iter_batches(_HEAD_ROWS, columns=[chosen]), None) if chosen in fields else None
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"this is not a Parquet file: {error}", where=paths[0], fix="check the file") from error
    texts = head.column(0).to_pylist() if head else []
    return InputSummary(
        paths=named,
        reader={"use": reader, "text": chosen},
        size=_size(paths, _COMPRESSED),
        documents=rows * len(paths),
        alphabet=count_alphabet("".join(each for each in texts if isinstance(each, str))),
    )


def _json_texts(head: bytes, field: str, *, whole: bool) -> bytes:
    """Return the texts of the whole records at the beginning of a file, in UTF-8; b"" where they cannot be read."""
    lines = head.splitlines()
    try:
        records = [json.loads(line) for line in (lines if whole else lines[:-1]) if line]
    except (ValueError, RecursionError):
        return b""
    for name in field.split("."):
        records = [record.get(name) for record in records if isinstance(record, dict)]
    return "\n".join(text for text in records if isinstance(text, str)).encode("utf-8", "replace")


def _json_fields(line: str, path: str) -> list[str]:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the first line is not JSON: {error}", where=path, fix="one JSON object per line") from error
    return list(record) if isinstance(record, dict) else []


def _header_fields(line: str, reader: str, path: str) -> list[str]:
    separator = "\t,"[reader == "csv"]
    try:
        names = next(csv.reader([line], delimiter=separator), [])
    except csv.Error as error:
        raise ConfigError(f"the first line has no names of columns: {error}", where=path, fix="add them") from error
    if longest := max((len(name) for name in names if len(name) > _LONGEST_NAME), default=0):
        what = f"the first line has no names of columns: a field of it has {longest:,} characters"
        raise ConfigError(what, where=path, fix="add them")
    if found := other_separator(names, separator):
        table = toml({"use": "csv", "separator": found.mark})
        fix = f"save it as CSV with commas, or write a recipe with reader = {table} (docs/readers.md)"
        raise ConfigError(found.what, where=path, fix=fix)
    return names


def _text_field(fields: list[str], wanted: str, path: str) -> str:
    """Return the field that has the text.

    Raises:
        ConfigError: the wanted field, or one that is usually called so, does not exist.
    """
    if wanted.partition(".")[0] in fields:
        return wanted
    usual = next((name for name in TEXT_FIELDS if name in fields), "")
    if usual and not wanted:
        return usual
    what = f"there is no field {wanted!r}" if wanted else f"there is no field called {', '.join(TEXT_FIELDS)}"
    raise ConfigError(what, where=path, fix=f"--text-field with one of {', '.join(map(repr, fields[:20]))}")


def _encodings(paths: list[str], looked_at: str, head: bytes) -> dict[str, str]:
    """Return the encodings of files; see `find_encodings`.

    Args:
        paths: the files, of which the first ones are looked at.
        looked_at: one of them.
        head: its beginning.
    """

    def heads() -> Iterator[tuple[str, bytes, int]]:
        for path in paths[:_LOOKED_AT]:
            if path == looked_at:
                yield path, head, _HEAD
            elif can_seek(path):
                yield path, _head(path, _SHORT_HEAD), _SHORT_HEAD

    return find_encodings(heads())


def _other_beginnings(paths: list[str], looked_at: str, head: bytes) -> Iterator[tuple[bytes, bool]]:
    """Yield the beginnings of files from everywhere in a list, if the one that has been looked at is small.

    Each comes with whether it is a whole file. What cannot be read is left to the build.
    """
    if len(head) == _HEAD:
        return
    others = [path for path in paths[:: -(-len(paths) // _COUNTED)] if path != looked_at and can_seek(path)]
    size = max(_LEAST_COUNTED, _HEAD // max(1, len(others)))
    for path in others:
        with contextlib.suppress(JprepError, OSError):
            beginning = _head(path, size)
            yield beginning, len(beginning) < size


def _utf8(head: bytes, whole: bool) -> bytes:
    return as_utf8(head, encoding_of(head, complete=whole))


def _first_with_bytes(paths: list[str]) -> str:
    """Return the first file that is not empty; the first one if all are."""
    return next((path for path in paths if not can_seek(path) or Path(path).stat().st_size), paths[0])


def _head(path: str, size: int = _HEAD) -> bytes:
    with open_input(path) as file:
        head = file.read(size)
    refuse_tar(head, path)
    if is_spreadsheet(head):
        raise spreadsheet_error(path, "text")
    return head


def _first_line(path: str, encoding: str) -> str:
    with open_input(path) as file:
        line = file.readline(_LONGEST_LINE).rstrip(b"\r\n")
    return line.decode("utf-8-sig" if encoding == "utf-8" else encoding, "replace")


def _size(paths: list[str], plain: float = 1.0) -> int:
    """Return the bytes of text, about, of files that have `plain` for each byte if they are not compressed."""
    return round(sum(Path(path).stat().st_size * (plain if is_plain(path) else _COMPRESSED) for path in paths))


def _scaled(count: int, head: bytes, size: int) -> int:
    """Return a count in the head, scaled to the whole text."""
    return max(count, count * size // len(head)) if head else 0


def _alphabet(*heads: bytes) -> int:
    return count_alphabet("".join(head.decode("utf-8", "ignore") for head in heads))
