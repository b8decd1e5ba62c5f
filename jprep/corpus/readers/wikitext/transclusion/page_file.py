"""The file of template pages: an SQLite database, of which a task reads only the templates that it needs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache, cached_property
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jprep.errors import ConfigError, MachineError
from jprep.io.atomic import atomic_path
from jprep.io.hashing import cached_sha256

FORMAT = "1"
_FIX = "make it with `jprep corpus templates DUMP -o FILE`"
_SCHEMA = """
CREATE TABLE properties (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE pages (
  name TEXT PRIMARY KEY, redirect TEXT NOT NULL, text TEXT NOT NULL, timestamp TEXT NOT NULL
) WITHOUT ROWID;
"""
_ADD = """
INSERT INTO pages VALUES (?, ?, ?, ?) ON CONFLICT (name) DO UPDATE
SET redirect = excluded.redirect, text = excluded.text, timestamp = excluded.timestamp
WHERE excluded.timestamp >= pages.timestamp
"""


class TemplatePage(NamedTuple):
    """A page of the template namespace.

    Attributes:
        name: canonical name of the template, without namespace.
        redirect: canonical name of the template that it redirects to, or ""; `:` and the title of any other page, which
            no template has as its name.
        text: what its transclusion shows.
        timestamp: time of the revision; of two pages with one name, the newer one is kept.
    """

    name: str
    redirect: str
    text: str
    timestamp: str


class TemplatePages:
    """The template pages of a file. The database is opened when it is first asked, once in each process.

    Args:
        path: the file.

    Raises:
        ConfigError: the file cannot be read, is damaged, or is not a file of template pages.
    """

    def __init__(self, path: str) -> None:
        self._path, self._process = path, -1
        try:
            Path(path).open("rb").close()
            with closing(self._connect()) as database:
                found = database.execute("SELECT value FROM properties WHERE name = 'format'").fetchone()
        except OSError as error:
            what = f"cannot read the template pages: {error.strerror}"
            raise ConfigError(what, where=path, fix=f"correct `template_pages`, or {_FIX}") from error
        except sqlite3.Error as error:
            raise ConfigError("this is not a file of template pages", where=path, fix=_FIX) from error
        if found != (FORMAT,):
            raise ConfigError(f"unknown format of template pages: {found}", where=path, fix=_FIX)

    @cached_property
    def sha256(self) -> str:
        """Hash of the file, computed when it is first needed: a task does not need it."""
        return cached_sha256(Path(self._path))

    def target(self, name: str) -> str | None:
        """Return where a page redirects to, "" if it does not, and None if there is no such page."""
        return self._select("redirect", name)

    def text(self, name: str) -> str:
        """Return what the transclusion of a page shows; "" if there is no such page."""
        return self._select("text", name) or ""

    def _select(self, column: str, name: str) -> str | None:
        try:
            row = self._database().execute(f"SELECT {column} FROM pages WHERE name = ?", (name,)).fetchone()
        except sqlite3.Error as error:
            what = f"cannot read the template pages: {error}"
            raise ConfigError(what, where=self._path, fix=f"the file is damaged: {_FIX}") from error
        return str(row[0]) if row else None

    def _database(self) -> sqlite3.Connection:
        if self._process != os.getpid():  # a connection must not be used in a forked process
            self._connection, self._process = self._connect(), os.getpid()
        return self._connection

    def _connect(self) -> sqlite3.Connection:
        # Immutable: no locks, which shared file systems may lack.
        address = f"file:{quote(str(Path(self._path).absolute()))}?mode=ro&immutable=1"
        return sqlite3.connect(address, uri=True, check_same_thread=False)


@cache
def load_template_pages(path: str) -> TemplatePages:
    """Return the pages of a file, opened once per process; see `TemplatePages`."""
    return TemplatePages(path)


def write_template_pages(path: Path, pages: Iterable[TemplatePage], properties: Mapping[str, str]) -> None:
    """Write a file of template pages. Its bytes depend on its pages and properties and the version of SQLite only.

    Args:
        path: the file, which appears when it is complete.
        pages: the pages, in any order.
        properties: what the file says of itself.

    Raises:
        MachineError: the disk is full or not writable.
    """
    with atomic_path(path) as temporary:
        try:
            with closing(sqlite3.connect(temporary, isolation_level=None)) as database:
                _fill(database, pages, {"format": FORMAT, **properties})
        except sqlite3.Error as error:
            fix = "free disk space there and in the directory of temporary files (TMPDIR)"
            raise MachineError(f"cannot write the template pages: {error}", where=str(path), fix=fix) from error


def _fill(database: sqlite3.Connection, pages: Iterable[TemplatePage], properties: Mapping[str, str]) -> None:
    database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_SCHEMA} BEGIN;")
    database.executemany(_ADD, pages)
    database.executemany("INSERT INTO properties VALUES (?, ?)", sorted(properties.items()))
    database.execute("COMMIT")
    database.execute("VACUUM")
