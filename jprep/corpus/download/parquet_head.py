"""Store the first rows of remote Parquet files, to try a recipe without the whole of them."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from jprep.errors import InputError
from jprep.io.atomic import atomic_path
from jprep.io.inputs.limits import DOWNLOAD_AGAIN
from jprep.io.inputs.paths import expand_patterns
from jprep.io.inputs.streams import open_raw

HEAD_ROWS = 1_000
"""Rows to store."""


def parquet_head_path(pattern: str, folder: Path) -> Path:
    """Return where the first rows of the files that match a URL are stored: the name tells URLs apart."""
    return folder / f"{hashlib.sha256(pattern.encode()).hexdigest()[:16]}.parquet"


def fetch_parquet_head(pattern: str, folder: Path, columns: list[str]) -> Path:
    """Store the first rows of the first file that matches a URL, unless they are stored already.

    Only the row group with these rows is read, and of it these columns.

    Args:
        pattern: the URL, which may be a pattern.
        folder: where to store the rows.
        columns: the columns to store; those of nested fields by dotted names.

    Returns:
        The path of the stored file.

    Raises:
        ConfigError: no file matches.
        InputError: the file is not a Parquet file, or is damaged.
        MachineError: the server cannot be reached, or a library is not installed.
    """
    path = parquet_head_path(pattern, folder)
    if path.exists():
        return path
    url = expand_patterns([pattern])[0]
    try:
        with open_raw(url) as stream, pq.ParquetFile(stream) as file:
            known = [name for name in columns if name.partition(".")[0] in file.schema_arrow.names]
            batch = next(file.iter_batches(HEAD_ROWS, columns=known), None)
            head = pa.Table.from_batches([batch] if batch else [], file.schema_arrow if batch is None else batch.schema)
    except pa.ArrowInvalid as error:
        raise InputError(f"this is not a Parquet file: {error}", where=url, fix=DOWNLOAD_AGAIN) from error
    with atomic_path(path) as temporary:
        pq.write_table(head, temporary)
    return path


def write_parquet_sample(documents: list[str], columns: dict[str, str], path: Path) -> None:
    """Store documents as Parquet.

    Args:
        documents: their texts.
        columns: column → `text`, or the name of a field that is made up.
        path: the file.
    """
    table = {
        column: documents if field == "text" else [f"{field}-{number}" for number in range(len(documents))]
        for column, field in columns.items()
    }
    with atomic_path(path) as temporary:
        pq.write_table(pa.table(table), temporary)
