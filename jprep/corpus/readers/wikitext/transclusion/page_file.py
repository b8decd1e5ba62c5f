"""The file of template pages: an SQLite database, of which a task reads only the templates that it needs."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from jprep.errors import ConfigError
from jprep.io.atomic import atomic_path, file_sha256

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
        redirect: canonical name of the template that it redirects to, or "".
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

    Attributes:
        sha256: hash of the file.

    Raises:
        ConfigError: the file cannot be read, or is not a file of template pages.
    """

    def __init__(self, path: str) -> None:
        self._path, self._process = path, -1
        try:
            self.sha256 = file_sha256(Path(path))
            with closing(self._connect()) as database:
                found = database.execute("SELECT value FROM properties WHERE name = 'format'").fetchone()
        except OSError as error:
            what = f"cannot read the template pages: {error.strerror}"
            raise ConfigError(what, where=path, fix=f"correct `template_pages`, or {_FIX}") from error
        except sqlite3.Error as error:
            raise ConfigError("this is not a file of template pages", where=path, fix=_FIX) from error
        if found != (FORMAT,):
            raise ConfigError(f"unknown format of template pages: {found}", where=path, fix=_FIX)

    def target(self, name: str) -> str | None:
        """Return where a page redirects to, "" if it does not, and None if there is no such page."""
        row = self._database().execute("SELECT redirect FROM pages WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else None

    def text(self, name: str) -> str:
        """Return what the transclusion of a page shows; "" if there is no such page."""
        row = self._database().execute("SELECT text FROM pages WHERE name = ?", (name,)).fetchone()
        return str(row[0]) if row else ""

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
    """Return the pages of a file, hashed once per process; see `TemplatePages`."""
    return TemplatePages(path)


def write_template_pages(path: Path, pages: Iterable[TemplatePage], properties: Mapping[str, str]) -> None:
    """Write a file of template pages. Its bytes depend on the pages, their order and the version of SQLite only.

    Args:
        path: the file, which appears when it is complete.
        pages: the pages, in any order.
        properties: what the file says of itself.
    """
    with atomic_path(path) as temporary, closing(sqlite3.connect(temporary, isolation_level=None)) as database:
        database.executescript(f"PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; {_SCHEMA} BEGIN;")
        database.executemany(_ADD, pages)
        database.executemany("INSERT INTO properties VALUES (?, ?)", sorted({"format": FORMAT, **properties}.items()))
        database.execute("COMMIT")
        database.execute("VACUUM")
