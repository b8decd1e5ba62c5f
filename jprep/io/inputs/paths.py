"""Where inputs are: patterns, sizes and names of local paths, fsspec URIs and standard input."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jprep.errors import ConfigError, JprepError, MachineError

STDIN = "-"
SUFFIXES = (".gz", ".bz2", ".xz", ".zst")


def is_local(path: str) -> bool:
    """Whether it is a path of this machine's file system: no URI, not standard input."""
    return path != STDIN and "://" not in path


def size_of(path: str) -> int | None:
    """An input's size in bytes, as it is stored; None for a pipe and where the place does not tell.

    Raises:
        ConfigError: there is no such file.
        MachineError: it cannot be looked at.
    """
    if path == STDIN:
        return None
    with translate_read_errors(path):
        if is_local(path):
            status = Path(path).stat()
            return status.st_size if stat.S_ISREG(status.st_mode) else None
        files, inside = open_filesystem(path)
        size: int | None = files.size(inside)
        return size


def expand_patterns(patterns: Sequence[str]) -> list[str]:
    """Paths that patterns stand for: each pattern's matches sorted, "-" as it is.

    Raises:
        ConfigError: a pattern matches nothing or names a folder, an input is named twice, or its name is not UTF-8.
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
    """Raise ConfigError where a name is not UTF-8: it goes into manifests and ids, which are."""
    try:
        path.encode()
    except UnicodeEncodeError as error:
        fix = "rename the file, e.g. with `convmv -f cp932 -t utf-8`, or give it through a link with another name"
        raise ConfigError("the file's name is not UTF-8", where=path, fix=fix) from error


def all_exist(patterns: Sequence[str]) -> bool:
    """Return whether each pattern matches something."""
    try:
        return bool(expand_patterns(patterns))
    except ConfigError:
        return False


def short_names(paths: Sequence[str]) -> dict[str, str]:
    """A short name for each of several inputs: the file's own, after as many of its folders as tell them all apart.

    Names say neither a compression (`a.txt.gz` is `a.txt`) nor where on a machine the files lie: identifiers made of
    them are the same in every build. Standard input is `stdin`.
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
        raise ConfigError("no file matches", where=pattern, fix="check the path")
    return sorted(found)


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
    return [str(files.unstrip_protocol(p)) for p in files.glob(inside)]


def open_filesystem(path: str) -> tuple[Any, str]:
    """The fsspec file system of a URI, and the path inside it."""
    import fsspec

    files, inside = fsspec.core.url_to_fs(path)
    return files, str(inside)


@contextmanager
def translate_read_errors(path: str) -> Iterator[None]:
    """Turn what looking at, opening and reading a file raise into errors that name it."""
    try:
        yield
    except JprepError:
        raise
    except FileNotFoundError as error:
        raise ConfigError("there is no such file", where=path, fix="check the path") from error
    except ImportError as error:
        fix = "pip install 'jprep[remote]', or what the message names"
        raise MachineError(f"this kind of URI needs another package: {error}", where=path, fix=fix) from error
    except ValueError as error:
        raise ConfigError(f"this is no usable path: {error}", where=path, fix="check the path") from error
    except OSError as error:
        fix = "check its rights, and the disk or the network that it is on"
        raise MachineError(f"cannot read the file: {error.strerror or error}", where=path, fix=fix) from error
