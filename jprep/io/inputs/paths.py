"""Patterns, sizes and short names of inputs: local paths, URLs and standard input."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from jprep.errors import ConfigError, Setting
from jprep.io.os_errors import translate_read_errors
from jprep.io.remote.objects import is_url, open_filesystem
from jprep.io.remote.retry import retry_remote

STDIN = "-"
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def is_local(path: str) -> bool:
    """Return whether this is a path of the local file system, not a URL or standard input."""
    return path != STDIN and not is_url(path)


def size_of(path: str) -> int | None:
    """Return the stored size of an input in bytes; None for a pipe and where the server does not say.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be read.
    """
    if path == STDIN:
        return None
    with translate_read_errors(path):
        if is_local(path):
            status = Path(path).stat()
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        files, inside = open_filesystem(path)
        size: int | None = retry_remote(lambda: files.size(inside), path, "read")
        return size


def expand_patterns(patterns: Sequence[str]) -> list[str]:
    """Return the paths that match patterns: each pattern's matches sorted, "-" as it is.

    Raises:
        ConfigError: a pattern matches nothing or names a directory, an input is named twice, or its name is not UTF-8.
    """
    paths: dict[str, str] = {}
    for pattern in patterns:
        for path in _matches(pattern):
            key = os.path.realpath(path) if is_local(path) else path
            if key in paths:
                raise ConfigError("an input is named twice", where=path, fix="name each file once")
            refuse_undecodable(path)
            paths[key] = path
    return list(paths.values())


def refuse_undecodable(path: str) -> None:
    """Raise ConfigError for a name that is not UTF-8: manifests and ids, which are UTF-8, contain it."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        fix = "rename the file, e.g. with `convmv -f cp932 -t utf-8`, or use a link with another name"
        raise ConfigError("the file's name is not UTF-8", where=path, fix=fix) from error


def all_exist(patterns: Sequence[str]) -> bool:
    """Return whether every pattern matches a file."""
    try:
        return bool(expand_patterns(patterns))
    except ConfigError:
        return False


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """Return a short name for each input: the file's name, with as many parent directories as make all names different.

    Names contain neither the compression (`a.txt.gz` is `a.txt`) nor the location, so identifiers that are made of them
    are the same in every build. Standard input is `stdin`.
    """
    bare = {path: _bare(path) for path in paths}
    if len(set(bare.values())) < len(bare):  # a.txt and a.txt.gz, side by side
        bare = {path: path for path in paths}
    parts = {path: short.split("/") for path, short in bare.items()}
    longest = max(map(len, parts.values()), default=1)
    for depth in range(1, longest + 1):
        short = {path: "/".join(p[-depth:]) for path, p in parts.items()}
        if len(set(short.values())) == len(short):
            break
    return short


def _bare(path: str) -> str:
    suffix = next((s for s in SUFFIXES if path.endswith(s)), "")
    return "stdin" if path == STDIN else path.removesuffix(suffix)


def _matches(pattern: str) -> list[str]:
    if pattern == STDIN:
        return [STDIN]
    with translate_read_errors(pattern):
        found = _local_matches(pattern) if is_local(pattern) else _remote_matches(pattern)
    if not found:
        start = "; relative paths start at the current directory" if _is_relative(pattern) else ""
        raise ConfigError("no file matches", where=pattern, fix=f"check the path{start}", setting=Setting("paths"))
    return sorted(found)


def _is_relative(pattern: str) -> bool:
    return is_local(pattern) and not Path(pattern).is_absolute()


def _local_matches(pattern: str) -> list[str]:
    if Path(pattern).is_dir():
        fix = f"name its files, e.g. '{pattern}/**/*.txt'"
        raise ConfigError("expected a file, got a directory", where=pattern, fix=fix)
    if Path(pattern).exists():  # a file's own name may hold brackets
        return [pattern]
    return [p for p in glob.glob(pattern, recursive=True) if not Path(p).is_dir()]  # noqa: PTH207 - Path takes no absolute ones


def _remote_matches(pattern: str) -> list[str]:
    if pattern.startswith(("http://", "https://")) or not glob.has_magic(pattern):  # a web address may hold a "?"
        return [pattern]
    files, inside = open_filesystem(pattern)
    found = retry_remote(lambda: files.glob(inside), pattern, "read")
    return [str(files.unstrip_protocol(p)) for p in found]
