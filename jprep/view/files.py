"""The files of a corpus as tables of DuckDB. Each file is compared with its hash before it is read."""

from __future__ import annotations

import glob
import os
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from jprep.corpus.document import Document, Reject
from jprep.corpus.store import Manifest, rebuild_fix
from jprep.engine.stage import Output
from jprep.errors import ConfigError, DamagedError, JprepError, MachineError
from jprep.io.verified_files import verify_file
from jprep.libraries import import_library
from jprep.view.query import Kind

if TYPE_CHECKING:
    from pathlib import Path

_SETTINGS = {
    "memory_limit": "1GB",
    "temp_directory": "",  # nothing is written
    "autoinstall_known_extensions": "false",  # nothing is downloaded
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
)
_OWN = {"documents": Document.__struct_fields__, "rejects": Reject.__struct_fields__}

SIGNALS = "signals."
"""Prefix of the names of signals, which are fields of one column."""


class Columns(NamedTuple):
    """Columns of documents besides those that every corpus has.

    Attributes:
        numbers: names of the columns with numbers, and of signals with the prefix `SIGNALS`.
        texts: names of the columns with text or truth values.
    """

    numbers: list[str]
    texts: list[str]


class CorpusFiles:
    """The files of a finished corpus.

    Args:
        folder: directory of the corpus.
        manifest: its manifest.

    Raises:
        MachineError: DuckDB is not installed.
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder = folder
        self.parts: Mapping[Kind, Sequence[Output]] = {
            "documents": manifest.parts,
            "rejects": manifest.reject_parts,
        }
        self._signals = manifest.signals
        self._duckdb = import_library("duckdb", "searching a corpus needs DuckDB", "'jprep[view]'")
        settings = _SETTINGS | {"threads": str(os.cpu_count() or 1)}
        self._connection = self._duckdb.connect(":memory:", config=settings)
        self.damage: dict[str, str] = {}
        """What is wrong with a file, by its path in the corpus; complete when `verified`."""
        self.verified = threading.Event()
        self._closed = False

    def rows(self, kind: Kind) -> int:
        """Return the number of documents or rejects, those in damaged files too."""
        return sum(part.rows for part in self.parts[kind])

    def part(self, kind: Kind, number: int) -> Output:
        """Return a file by its number.

        Raises:
            ConfigError: there is no such file.
        """
        if not 0 <= number < len(self.parts[kind]):
            raise ConfigError(f"this corpus has no file {number} of {kind}", where=str(self.folder))
        return self.parts[kind][number]

    def select(
        self, kind: Kind, number: int, columns: str, where: str = "true", parameters: Sequence[Any] = ()
    ) -> list[dict[str, Any]]:
        """Read rows of a file.

        Args:
            kind: documents or rejects.
            number: number of the file.
            columns: SQL of the columns; `file_row_number` is the row.
            where: SQL of the condition and, optionally, of the limit. Rows keep their order.
            parameters: values of the `?` in both.

        Raises:
            DamagedError: the file is missing or damaged.
            MachineError: it cannot be read.
            JprepError: it cannot be searched.
        """
        if self._closed:
            raise JprepError("the server is ending")
        path = self._verified(self.part(kind, number))
        source = "read_parquet(?, file_row_number = true, hive_partitioning = false)"
        placed = [*parameters[: columns.count("?")], glob.escape(str(path)), *parameters[columns.count("?") :]]
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(f"SELECT {columns} FROM {source} WHERE {where}", placed)
                names = [column[0] for column in cursor.description]
                return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
        except self._duckdb.Error as error:
            what = str(error).splitlines()[0]
            raise JprepError(f"cannot search a file: {what}", where=str(path), fix=rebuild_fix(self.folder)) from error

    def extra_columns(self) -> Columns:
        """Return the signals, and columns that are not those of `Document`; none if the first file is unusable."""
        if not self.parts["documents"]:
            return Columns([], [])
        try:
            path = self._verified(self.parts["documents"][0])
        except (DamagedError, MachineError):
            return Columns([], [])
        with self._connection.cursor() as cursor:
            cursor.execute(
                "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)", [glob.escape(str(path))]
            )
            found = {name: kind for name, kind, *_ in cursor.fetchall() if name not in _OWN["documents"]}
        texts = [name for name, kind in found.items() if kind in ("VARCHAR", "BOOLEAN")]
        numbers = [name for name, kind in found.items() if kind in _NUMBERS]
        return Columns([*numbers, *(SIGNALS + signal for signal in self._signals)], texts)

    def verify_all(self) -> None:
        """Compare all files with their hashes, for a thread that runs beside the first requests."""
        for part in [*self.parts["documents"], *self.parts["rejects"]]:
            if self._closed:
                return
            try:
                self._verified(part)
            except (DamagedError, MachineError):
                continue
        self.verified.set()

    def stop(self) -> None:
        """Begin nothing more: a running search ends after its present file."""
        self._closed = True

    def close(self) -> None:
        """Close the connection, of which DuckDB complains if it exists at the end of the process."""
        self.stop()
        self._connection.close()
        self._connection = None

    def _verified(self, part: Output) -> Path:
        try:
            path = verify_file(self.folder / part.path, part.sha256, rebuild_fix(self.folder))
        except (DamagedError, MachineError) as error:
            self.damage[part.path] = error.what
            raise
        self.damage.pop(part.path, None)
        return path


def column_sql(column: str) -> str:
    """Return a column, or a signal, as SQL. A signal that does not apply to a document is NULL, not NaN."""
    if column.startswith(SIGNALS):
        return f"nullif(signals.{_quoted(column.removeprefix(SIGNALS))}, 'nan')"
    return _quoted(column)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
