"""Read rows of labelled data from JSONL, CSV, TSV or Parquet: texts and their labels."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import msgspec

import jprep.io.inputs.japanese_codecs  # noqa: F401 - registers cp51932
from jprep.config import suggest_name
from jprep.corpus.readers.archives import SAVE_AS_CSV
from jprep.corpus.readers.fields import other_separator
from jprep.errors import ConfigError, InputError, Setting

LabelledTask = Literal["classify", "regress"]
Stratify = Literal["", "label", "quantiles", "width"]
Encoding = Literal["utf-8", "cp932", "shift_jis", "euc_jp", "cp51932"]

_LONGEST_FIELD = 1 << 30
_BATCH = 1024
_NO_FLOAT32 = 3.4028235677973366e38  # becomes infinite in float32, in which scores are kept


class LabelledConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Which columns hold texts and labels, and how rows are built from them.

    Attributes:
        text: column of the text.
        pair: column of a second text; "" if there is none.
        label: column of the label or score.
        fold: column of integers; a row's fold is the remainder of its integer. "": the hash of the text decides.
        folds: number of folds; 0 for none.
        stratify: `label` gives each fold an equal share of each label; `quantiles` and `width` of each bin of the
            score, with equal numbers of rows or of equal width; "" does not stratify.
        bins: number of bins of the score; 0 is 1 + log2 of the number of rows, rounded down (Sturges).
        header: whether the first line of CSV and TSV names the columns; otherwise they are named 0, 1, …
        columns: names of the columns of CSV and TSV without a header, in order.
        encoding: encoding of CSV and TSV; `cp51932` is EUC-JP with `①`, `㈱`, `髙` and others.
        length: maximum tokens per row, including special tokens; longer rows are truncated.
        buckets: shorter lengths that batches of short rows are padded to, instead of `length`.
    """

    text: str = "text"
    pair: str = ""
    label: str = "label"
    fold: str = ""
    folds: int = 0
    stratify: Stratify = ""
    bins: int = 0
    header: bool = True
    columns: list[str] = []
    encoding: Encoding = "utf-8"
    length: int = 128
    buckets: list[int] = []


class RowCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of the labelled rows of a job.

    Attributes:
        train: rows to train on.
        labels: those of each class, in the order of its id; empty for scores.
        validation: rows to validate on.
    """

    train: int
    labels: list[int] = []
    validation: int = 0


class LabelledRow(NamedTuple):
    """A row.

    Attributes:
        text: the text.
        pair: the second text; "" if the config names none.
        label: a class name or a score.
        number: value of the fold column; 0 if the config names none.
        location: file and line, for error messages.
    """

    text: str
    pair: str
    label: str | float
    number: int
    location: str


Record = tuple[str, Mapping[str, Any]]
"""File and line of a record, and its values by column."""


def read_labelled_rows(path: Path, config: LabelledConfig, task: LabelledTask) -> Iterator[LabelledRow]:
    """Read the rows of a file. The suffix decides the format: `.jsonl`, `.csv`, `.tsv`, `.parquet`.

    TSV has no quoting: a field contains no tab and no newline. CSV is quoted as by spreadsheets. All files are UTF-8,
    CSV and TSV unless the config names another encoding.

    Raises:
        ConfigError: the file does not exist, or its suffix is unknown.
        InputError: an unreadable line, a missing column, or an invalid label.
    """
    wanted = [name for name in (config.text, config.pair, config.label, config.fold) if name]
    for location, record in read_records(path, config, wanted):
        yield _row(location, record, config, task)


def refuse_directory(path: Path, suffixes: Iterable[str]) -> None:
    """Check that a path is not a directory.

    Args:
        path: the path of a file with rows.
        suffixes: what such files end in.

    Raises:
        ConfigError: it is one.
    """
    if path.is_dir():
        fix = f"name its files ({', '.join(suffixes)})"
        raise ConfigError("expected a file, got a directory", where=str(path), fix=fix)


def read_records(path: Path, config: LabelledConfig, wanted: Sequence[str] = ()) -> Iterator[Record]:
    """Yield the records of a file with their places; see `read_labelled_rows`.

    Args:
        path: the file.
        config: how CSV and TSV are to be read.
        wanted: columns to read of Parquet, which must exist; none for all.

    Raises:
        ConfigError: the file does not exist, or its suffix is unknown.
        InputError: an unreadable line, or a missing column of Parquet.
    """
    refuse_directory(path, _READERS)
    reader = _READERS.get(path.suffix)
    if reader is None:
        fix = SAVE_AS_CSV if path.suffix.lower() in (".xlsx", ".xls") else f"supported: {', '.join(_READERS)}"
        raise ConfigError(f"unknown format of labelled data: {path.suffix or path.name!r}", where=str(path), fix=fix)
    try:
        yield from reader(path, config, wanted)
    except OSError as error:
        raise ConfigError(
            f"cannot read the file: {error.strerror or error}", where=str(path), fix="check the path"
        ) from error


def _row(location: str, record: Mapping[str, Any], config: LabelledConfig, task: LabelledTask) -> LabelledRow:
    parse_label = _name if task == "classify" else _score
    label = parse_label(_value(record, config.label, location), location)
    text = _text(record, config.text, location)
    pair = _text(record, config.pair, location) if config.pair else ""
    number = _number(_value(record, config.fold, location), location) if config.fold else 0
    return LabelledRow(text, pair, label, number, location)


def _value(record: Mapping[str, Any], column: str, location: str) -> Any:
    if column not in record:
        raise InputError(f"missing column {column!r}", where=location, fix=suggest_name(column, record))
    return record[column]


def _text(record: Mapping[str, Any], column: str, location: str) -> str:
    value = _value(record, column, location)
    if not isinstance(value, str):
        raise InputError(
            f"column {column!r} must be text, got {value!r:.80}", where=location, fix="choose a column of text"
        )
    return value


def _name(value: Any, location: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int) or (isinstance(value, str) and value):
        return str(value)
    fix = 'labels are strings or integers; for scores use task = "regress"'
    raise InputError(f"not a label: {value!r:.80}", where=location, fix=fix)


def _score(value: Any, location: str) -> float:
    spelt_as_code = isinstance(value, str) and "_" in value  # Python reads `1_000` as 1000
    try:
        score = math.nan if isinstance(value, bool) or spelt_as_code else float(value)
    except (TypeError, ValueError, OverflowError):
        score = math.nan
    if not abs(score) < _NO_FLOAT32:
        fix = 'scores are numbers between -3.4e38 and 3.4e38; for class names use task = "classify"'
        raise InputError(f"not a score: {value!r:.80}", where=location, fix=fix)
    return score


def _number(value: Any, location: str) -> int:
    try:
        number = -1 if isinstance(value, bool | float) else int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        fix = "fold columns hold integers from 0; without `fold`, the hash of the text decides"
        raise InputError(f"not a fold number: {value!r:.80}", where=location, fix=fix)
    return number


def _jsonl(path: Path, config: LabelledConfig, wanted: Sequence[str]) -> Iterator[Record]:
    decoder = msgspec.json.Decoder(dict[str, Any])
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            location = f"{path}, line {number}"
            if line.strip():
                try:
                    yield location, decoder.decode(line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    fix = "each line must be one JSON object; JSON has no NaN and no Infinity"
                    raise InputError(f"invalid JSON: {error}", where=location, fix=fix) from error


def _csv(path: Path, config: LabelledConfig, wanted: Sequence[str]) -> Iterator[Record]:
    csv.field_size_limit(_LONGEST_FIELD)
    names: list[str] = []
    encoding = "utf-8-sig" if config.encoding == "utf-8" else config.encoding
    with path.open(encoding=encoding, newline="") as file:
        options: dict[str, Any] = (
            {"delimiter": "\t", "quoting": csv.QUOTE_NONE} if path.suffix == ".tsv" else {"strict": True}
        )
        reader = csv.reader(file, **options)
        for line, fields in _numbered(reader, path, encoding):
            location = f"{path}, line {line}"
            if not names and config.header:
                names = _distinct(fields, location)
                _refuse_other_separator(names, path, reader.dialect.delimiter)
                continue
            names = names or config.columns or [str(number) for number in range(len(fields))]
            if fields and len(fields) != len(names):
                given = "as train.labelled.columns names" if config.columns else "as in the first line"
                what = f"found {len(fields)} fields, expected {len(names)} {given}"
                raise InputError(what, where=location, fix="quote fields that contain separators or newlines (CSV)")
            if fields:
                yield location, dict(zip(names, fields, strict=True))


def _distinct(names: list[str], location: str) -> list[str]:
    if len(set(names)) < len(names):
        raise InputError("two columns have the same name", where=location, fix="rename one")
    return names


def _refuse_other_separator(names: list[str], path: Path, separator: str) -> None:
    if found := other_separator(names, separator):
        fix = _SEPARATOR_FIXES.get((found.mark, path.suffix), "save it with commas, as .csv")
        raise InputError(found.what, where=str(path), fix=fix)


def _numbered(reader: Any, path: Path, encoding: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of a table with the number of the line that each begins in."""
    while True:
        line = reader.line_num + 1
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            fix = "quote fields that contain separators, quotes or newlines"
            raise InputError(f"invalid CSV: {error}", where=f"{path}, line {line}", fix=fix) from error
        except UnicodeDecodeError as error:  # the reader reads ahead
            where = f"{path}, line {_undecodable(path, encoding)}"
            fix = 'save the file as UTF-8, or set train.labelled.encoding, e.g. to "cp932"'
            what = f"invalid {'UTF-8' if encoding == 'utf-8-sig' else encoding}"
            raise InputError(what, where=where, fix=fix, setting=Setting("encoding", "cp932")) from error
        yield line, fields


def _undecodable(path: Path, encoding: str) -> int:
    """Return the number of the first line that cannot be decoded; 0 if all can."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            try:
                line.decode(encoding)
            except UnicodeDecodeError:
                return number
    return 0


def _parquet(path: Path, config: LabelledConfig, wanted: Sequence[str]) -> Iterator[Record]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = 0
    try:
        with pq.ParquetFile(path) as file:
            columns = dict.fromkeys(file.schema_arrow.names)
            for name in wanted:
                _value(columns, name, str(path))
            for batch in file.iter_batches(_BATCH, columns=list(wanted) or None):
                for record in batch.to_pylist():
                    yield f"{path}, row {row}", record
                    row += 1
    except (pa.ArrowException, UnicodeDecodeError) as error:
        where = f"{path}, row {row} or one of the next {_BATCH}"
        raise InputError(f"invalid Parquet: {error}", where=where, fix="write the file again") from error


_SEPARATOR_FIXES = {
    ("\t", ".csv"): "end the file's name in .tsv if no field is quoted; otherwise save it with commas",
    (",", ".tsv"): "end the file's name in .csv",
}
"""What to do about a separator in a file with a suffix."""

_READERS: dict[str, Callable[[Path, LabelledConfig, Sequence[str]], Iterator[Record]]] = {
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".tsv": _csv,
    ".parquet": _parquet,
}

SUFFIXES = tuple(_READERS)
"""Suffixes of the files that are read."""
