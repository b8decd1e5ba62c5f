"""Give a corpus to other libraries: Arrow, pandas, polars and Hugging Face datasets share the same buffers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from jprep.corpus.interactive.batches import Selection, read_row_groups
from jprep.engine.fingerprint import fingerprint
from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path
from jprep.io.os_errors import translate_read_errors
from jprep.libraries import import_library

if TYPE_CHECKING:
    import datasets
    import pandas as pd
    import polars as pl

_MAGIC = b"ARROW1"
"""The first bytes of an Arrow file."""


def arrow_table(selection: Selection, file: str | Path | None = None) -> pa.Table:
    """Return the rows as a table, one chunk for each row group.

    Args:
        selection: what to read.
        file: Arrow file to decode into, which is then memory-mapped; None decodes into memory.

    Raises:
        DamagedError: a file is missing or damaged.
        ConfigError: `file` exists and is not an Arrow file.
        MachineError: the Arrow file cannot be written.
    """
    if file is None:
        return pa.Table.from_batches(read_row_groups(selection), selection.schema)
    _write_arrow_file(selection, Path(file))
    with translate_read_errors(str(file)):
        return pa.ipc.open_file(pa.memory_map(str(file))).read_all()


def _write_arrow_file(selection: Selection, file: Path) -> None:
    if file.exists() and not _is_arrow_file(file):
        raise ConfigError("this file exists and is not an Arrow file", where=str(file), fix="choose another name")
    with atomic_path(file) as temporary, pa.ipc.new_file(str(temporary), selection.schema) as writer:
        for batch in read_row_groups(selection):
            writer.write_batch(batch)


def _is_arrow_file(file: Path) -> bool:
    with translate_read_errors(str(file)), file.open("rb") as opened:
        return opened.read(len(_MAGIC)) == _MAGIC


def pandas_frame(selection: Selection, file: str | Path | None = None) -> pd.DataFrame:
    """Return the rows as a pandas frame whose columns are those of `arrow_table`.

    Raises:
        MachineError: pandas is not installed.
    """
    pandas = _library("pandas")
    return arrow_table(selection, file).to_pandas(types_mapper=pandas.ArrowDtype)


def polars_frame(selection: Selection, file: str | Path | None = None) -> pl.DataFrame:
    """Return the rows as a polars frame that shares the text with `arrow_table`.

    Raises:
        MachineError: polars is not installed.
    """
    polars = _library("polars")
    return polars.from_arrow(arrow_table(selection, file), rechunk=False)


def polars_scan(selection: Selection) -> pl.LazyFrame:
    """Verify the files, and return a lazy frame over them.

    Raises:
        MachineError: polars is not installed.
        DamagedError: a file is missing or damaged.
    """
    polars = _library("polars")
    paths = selection.verified_paths()
    if not paths:
        return polars.from_arrow(selection.schema.empty_table()).lazy()
    return polars.scan_parquet(paths, glob=False).select(selection.columns)


def hugging_face_dataset(selection: Selection, file: str | Path | None = None) -> datasets.Dataset:
    """Return the rows as a `datasets.Dataset` over the buffers of `arrow_table`.

    Its fingerprint is made from the corpus, so that caches of `map` are found again by other processes.

    Raises:
        MachineError: datasets is not installed.
    """
    library = _library("datasets")
    manifest = selection.manifest
    licences = sorted({source.get("licence", "") for source in manifest.sources} - {""})
    info = library.DatasetInfo(description=manifest.signature, license=", ".join(licences), dataset_name=manifest.name)
    fields = {"corpus": manifest.fingerprint, "columns": selection.columns, "rejects": selection.rejects}
    return library.Dataset(arrow_table(selection, file), info=info, fingerprint=fingerprint(fields))


def _library(name: str) -> Any:
    """Import a library that jprep does not depend on.

    Raises:
        MachineError: it is not installed.
    """
    return import_library(name, f"this needs {name}", name)
