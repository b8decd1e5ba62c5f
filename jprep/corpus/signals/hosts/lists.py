"""Read lists of hosts and URL patterns: folders in UT1's form, or a file of domains."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from jprep.corpus.signals.hosts.addresses import MAX_HOST, hash_hosts, parse_address
from jprep.errors import ConfigError, InputError
from jprep.io.hashing import cached_sha256
from jprep.io.inputs.streams import open_input

_WHERE = "signal 'hosts'"
_LISTS = f"{_WHERE}, key `lists`"
_KINDS = ("domains", "urls", "expressions")
_ENDINGS = ("", ".gz", ".xz", ".bz2", ".zst")
_PLAIN = re.compile(rb"[a-z0-9_-]+(?:\.[a-z0-9_-]+)+\Z")
_QUERY = re.compile(rb"[?#]")
_CHUNK = 1 << 20
_LONGEST = 1 << 16  # bytes of a line
_WRONG = 0.1  # share of lines that are no hosts, with which a file is no such list


class ListFiles(NamedTuple):
    """The files of a list.

    Attributes:
        files: path and kind (`domains`, `urls`, `expressions`) of each file.
    """

    files: tuple[tuple[Path, str], ...]

    def digest(self) -> str:
        """Return a hash of the contents."""
        parts = [f"{kind} {cached_sha256(path)}" for path, kind in self.files]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()


class HostList(NamedTuple):
    """A list that is read.

    Attributes:
        domains: hashes of its domains, sorted, shape [domains].
        urls: hosts with paths, each path without a slash at its end.
        url_lengths: the lengths of `urls` in characters.
        url_hosts: hashes of the hosts of `urls`, sorted.
        expressions: its patterns, which are looked for in host and path of an address.
    """

    domains: NDArray[np.uint64]
    urls: frozenset[str]
    url_lengths: frozenset[int]
    url_hosts: NDArray[np.uint64]
    expressions: tuple[re.Pattern[str], ...]


def list_category(path: str) -> str:
    """Return the category of a list: the name of its folder, or of its file without endings.

    Raises:
        ConfigError: it cannot be part of a column's name.
    """
    category = Path(path).name.split(".")[0].replace("-", "_").lower()
    if not (category.isascii() and category.isidentifier()):
        fix = "name it by its category in ASCII letters, digits and `_`, or set `name`"
        raise ConfigError(f"{path}: {category!r} is not a category", where=_LISTS, fix=fix)
    return category


def find_list(path: str) -> ListFiles:
    """Return the files of a list.

    Raises:
        ConfigError: there is no such folder or file, or the folder has none of the files of a list.
    """
    place = Path(path).expanduser()
    if place.is_file():
        return ListFiles(((place, "domains"),))
    if not place.is_dir():
        raise ConfigError(f"{path}: no such file or folder", where=_LISTS, fix="its path")
    files = tuple((file, kind) for kind in _KINDS for end in _ENDINGS if (file := place / f"{kind}{end}").is_file())
    if not files:
        what = f"{path}: none of the files {', '.join(_KINDS)} is in this folder"
        raise ConfigError(what, where=_LISTS, fix="the folder of one category, or a file of domains")
    return ListFiles(files)


def read_lists(found: list[ListFiles]) -> HostList:
    """Return several lists as one.

    Raises:
        InputError: a file is damaged, or no such list; the error names the line.
    """
    domains = [np.zeros(0, np.uint64)]
    urls, patterns = set[str](), list[re.Pattern[str]]()
    for path, kind in (file for each in found for file in each.files):
        if kind == "expressions":
            patterns += _expressions(path)
        else:
            domains += _read_hosts(path, urls)
    hosts = sorted({url.partition("/")[0].encode() for url in urls})
    return HostList(
        domains=np.sort(np.concatenate(domains)),
        urls=frozenset(urls),
        url_lengths=frozenset(map(len, urls)),
        url_hosts=np.sort(hash_hosts(hosts)),
        expressions=tuple(patterns),
    )


def _read_hosts(path: Path, urls: set[str]) -> list[NDArray[np.uint64]]:
    """Return the hashes of the domains of a file, and add its entries with a path to `urls`."""
    hashes, total, wrong, first = list[NDArray[np.uint64]](), 0, 0, 0
    for chunk in _line_chunks(path):
        lines = [line.lower() for line in chunk]
        domains = [line for line in lines if _is_plain(line)]
        for number, line in enumerate(lines, total + 1) if len(domains) < len(lines) else ():
            if line and not line.startswith(b"#") and not _is_plain(line):
                entry = parse_address(line.decode("utf-8", "replace").lstrip("\ufeff*."))
                if not entry.host or (not entry.path and _QUERY.search(line)):  # a query alone names no part of a site
                    wrong, first = wrong + 1, first or number
                elif entry.path:
                    urls.add(entry.host + entry.path)
                else:
                    domains.append(entry.host.encode())
        hashes.append(hash_hosts(domains))
        total += len(lines)
    if wrong > _WRONG * total:
        what = f"{path}: {wrong} of {total} lines are not hosts, the first is line {first}"
        raise InputError(what, where=_LISTS, fix="one host or URL on each line, as the lists of UT1 have")
    return hashes


def _is_plain(line: bytes) -> bool:
    return _PLAIN.match(line) is not None and len(line) <= MAX_HOST


def _expressions(path: Path) -> Iterator[re.Pattern[str]]:
    number = 0
    for lines in _line_chunks(path):
        for line in lines:
            number += 1
            text = line.decode("utf-8", "replace")
            if not text or text.startswith("#"):
                continue
            try:
                yield re.compile(text, re.IGNORECASE)
            except re.error as error:
                what = f"{path}, line {number}: {error}"
                raise InputError(what, where=_LISTS, fix="correct this regular expression, or delete it") from error


def _line_chunks(path: Path) -> Iterator[list[bytes]]:
    """Yield the lines of a file without white space around them, some at a time."""
    rest = b""
    with open_input(str(path)) as stream:
        while data := stream.read(_CHUNK):
            lines = (rest + data).split(b"\n")
            rest = lines.pop()
            if len(rest) > _LONGEST:
                raise InputError(f"{path}: a line of over {_LONGEST} bytes", where=_LISTS, fix="one entry on each line")
            yield [line.strip() for line in lines]
    if rest.strip():
        yield [rest.strip()]
