"""Rows of labelled data: texts and what is to be said of them, from JSONL, CSV, TSV or Parquet."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

from jprep.errors import ConfigError, InputError
from jprep.plugins.references import suggest_name

LabelledTask = Literal["classify", "regress"]

_LONGEST_FIELD = 1 << 30
_BATCH = 1024


class LabelledConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which columns are what, and how rows are made of them.

    Attributes:
        text: the column of the text.
        pair: the column of a second text; "" if there is none.
        label: the column of the label, or of the score.
        fold: a column of integers: a row is in the fold that its integer has as remainder. "": the text's hash says.
        folds: how many folds; 0 for none.
        header: whether the first line of CSV and TSV names the columns; else they are named 0, 1, …
        length: most tokens of a row, special tokens among them; what is longer is cut.
        buckets: shorter lengths that batches of short rows are padded to, instead of `length`.
    """

    text: str = "text"
    pair: str = ""
    label: str = "label"
    fold: str = ""
    folds: int = 0
    header: bool = True
    length: int = 128
    buckets: list[int] = []


class LabelledRow(NamedTuple):
    """One row.

    Attributes:
        text: the text.
        pair: the second text; "" where the config names none.
        label: a name, or a score.
        number: what the fold's column says; 0 where the config names none.
        place: file and line, for errors.
    """

    text: str
    pair: str
    label: str | float
    number: int
    place: str


Record = tuple[str, Mapping[str, Any]]
"""Its place, and its values by column."""


def read_labelled_rows(path: Path, config: LabelledConfig, task: LabelledTask) -> Iterator[LabelledRow]:
    """Read a file's rows; its suffix says what it is: `.jsonl`, `.csv`, `.tsv`, `.parquet`.

    TSV has no quoting: a field holds no tab and no newline. CSV is quoted as spreadsheets do. All are UTF-8.

    Raises:
        ConfigError: there is no such file, or its suffix is unknown.
        InputError: a line that cannot be read, a column that is not there, a label that is none.
    """
    reader = _READERS.get(path.suffix)
    if reader is None:
        fix = f"jprep reads {', '.join(_READERS)}"
        raise ConfigError(f"unknown kind of labelled data: {path.suffix or path.name!r}", where=str(path), fix=fix)
    try:
        for place, record in reader(path, config):
            yield _row(place, record, config, task)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror or error}", where=str(path), fix="name a file") from error


def _row(place: str, record: Mapping[str, Any], config: LabelledConfig, task: LabelledTask) -> LabelledRow:
    label = (_name if task == "classify" else _score)(_value(record, config.label, place), place)
    text = _text(record, config.text, place)
    pair = _text(record, config.pair, place) if config.pair else ""
    number = _number(_value(record, config.fold, place), place) if config.fold else 0
    return LabelledRow(text, pair, label, number, place)


def _value(record: Mapping[str, Any], column: str, place: str) -> Any:
    if column not in record:
        raise InputError(f"there is no column {column!r}", where=place, fix=suggest_name(column, record))
    return record[column]


def _text(record: Mapping[str, Any], column: str, place: str) -> str:
    value = _value(record, column, place)
    if not isinstance(value, str):
        raise InputError(f"column {column!r} is no text but {value!r:.80}", where=place, fix="name a column of texts")
    return value


def _name(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, str) and value):
        return str(value)
    fix = 'labels are texts or whole numbers; for scores take task = "regress"'
    raise InputError(f"this is no label: {value!r:.80}", where=place, fix=fix)


def _score(value: Any, place: str) -> float:
    try:
        score = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        score = math.nan
    if not math.isfinite(score):
        fix = 'scores are finite numbers; for names take task = "classify"'
        raise InputError(f"this is no score: {value!r:.80}", where=place, fix=fix)
    return score


def _number(value: Any, place: str) -> int:
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        fix = "folds go by integers from 0; without `fold` the text's hash says"
        raise InputError(f"this is no row's number: {value!r:.80}", where=place, fix=fix)
    return number


def _jsonl(path: Path, config: LabelledConfig) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            place = f"{path}, line {number}"
            if line.strip():
                try:
                    yield place, decoder.decode(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
                except (msgspec.DecodeError, UnicodeDecodeError) as error:
                    fix = "each line is one JSON object; JSON has no NaN and no Infinity"
                    raise InputError(f"cannot be read: {error}", where=place, fix=fix) from error


def _csv(path: Path, config: LabelledConfig) -> Iterator[Record]:
    csv.field_size_limit(_LONGEST_FIELD)
    names: list[str] = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        options: dict[str, Any] = (
            {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {"strict": True}
        )
        reader = csv.reader(file, **options)
        for line, fields in _numbered(reader, path):
            place = f"{path}, line {line}"
            if not names and config.header:
                names = _distinct(fields, place)
                continue
            names = names or [str(number) for number in range(len(fields))]
            if fields and len(fields) != len(names):
                what = f"{len(fields)} fields, where the first line has {len(names)}"
                raise InputError(what, where=place, fix="quote fields that hold separators or newlines (CSV)")
            if fields:
                yield place, dict(zip(names, fields, strict=True))


def _distinct(names: list[str], place: str) -> list[str]:
    if len(set(names)) < len(names):
        raise InputError("two columns have the same name", where=place, fix="rename one, or set header = false")
    return names


def _numbered(reader: Any, path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows of a table, and the line that each begins in."""
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fix = "quote fields that hold separators, quotes or newlines"
            raise InputError(f"cannot be read: {error}", where=f"{path}, line {line}", fix=fix) from error
        except UnicodeDecodeError as error:  # it was read ahead
            where = f"{path}, line {_undecodable(path)}"
            raise InputError("this is not UTF-8", where=where, fix="save the file as UTF-8") from error
        yield line, fields


def _undecodable(path: Path) -> int:
    """The first line that is not UTF-8; 0 if all are."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode()
            except UnicodeDecodeError:
                return number
    return 0


def _parquet(path: Path, config: LabelledConfig) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = dict.fromkeys(file.schema_arrow.names)
            wanted = [name for name in (config.text, config.pair, config.label, config.fold) if name]
            for name in wanted:
                _value(columns, name, str(path))
            for batch in file.iter_batches(_BATCH, columns=wanted):
                for record in batch.to_pylist():
                    yield f"{path}, row {row}", record
                    row += 1
    except (pa.ArrowException, UnicodeDecodeError) as error:
        where = f"{path}, row {row} or one of the next {_BATCH}"
        raise InputError(f"cannot be read: {error}", where=where, fix="write the file again") from error


_READERS: dict[str, Callable[[Path, LabelledConfig], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}
