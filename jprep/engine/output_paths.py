"""Refuse paths that no output must be written to."""

from __future__ import annotations

import errno
import re
import stat
from pathlib import Path

from jprep.engine.output_kinds import find_outputs
from jprep.errors import ConfigError
from jprep.io.inputs.paths import is_local
from jprep.io.os_errors import write_error

_DEPTH = 3  # maximum depth of a file in an output: checkpoints/step-100/model.safetensors

_LOST_SLASH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:/")
"""The start of a URL from which `pathlib` has removed a slash."""


def check_output_file(path: Path) -> None:
    """Refuse a path that no file must be written to; nothing is changed.

    Raises:
        ConfigError: it is a directory, a device, a URL or a broken symbolic link; or a file of a corpus, a tokenizer, a
            dataset, a run or an export.
        MachineError: it cannot be read.
    """
    refuse_remote(path)
    try:
        problem = _describe_non_file(path)
    except OSError as error:
        raise write_error(error, path) from error
    if problem:
        raise ConfigError(f"expected a file, found {problem}", where=str(path), fix="choose another output file")


def check_new_file(path: Path, *, force: bool) -> None:
    """Check that a new file may be written, or, with `force`, that an existing one may be replaced.

    Raises:
        ConfigError: see `check_output_file`; or the file exists, and `force` is not given.
        MachineError: it cannot be read.
    """
    check_output_file(path)
    if path.exists() and not force:
        raise ConfigError("this file exists", where=str(path), fix="choose another name, or replace it with --force")


def refuse_url(text: str) -> None:
    """Refuse a URL as an output path.

    Raises:
        ConfigError: it is one.
    """
    if not is_local(text) and text != "-":
        raise _remote(text)


def refuse_remote(path: Path) -> None:
    """Raise ConfigError if a path was a URL before it became a path."""
    begin = _LOST_SLASH.match(str(path))
    if begin and not Path(path.parts[0]).exists():
        raise _remote(str(path))


def _remote(text: str) -> ConfigError:
    what = "this command cannot write to a URL: its work in progress needs a file system with locks and renames"
    fix = "give a local path; `train.checkpoint.mirror` copies a run to a URL, and -o of other commands their outputs"
    return ConfigError(what, where=text, fix=fix)


def describe_non_directory(path: Path) -> str:
    """Return what exists at a path that cannot become a directory, or ""; see `OutputDirectory.check`."""
    try:  # one look: another process may create it at this moment
        return "" if stat.S_ISDIR(path.stat().st_mode) else "a file"
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise
        return f"a symbolic link to {path.readlink()}, which does not exist" if path.is_symlink() else ""


def _describe_non_file(path: Path) -> str:
    if path.is_dir():
        return f"a directory ({', '.join(map(str, find_outputs(path))) or 'of other files'})"
    if path.is_symlink() and not path.exists():
        return f"a symbolic link to {path.readlink()}, which does not exist"
    if not path.exists():
        return ""
    if not path.is_file():
        return "a device or a pipe"
    inside = ((folder, found) for folder in path.resolve().parents[:_DEPTH] for found in find_outputs(folder))
    owner = next((each for each in inside if not each[1].kind.container), None)
    return f"a file of {owner[1]} in {owner[0]}" if owner else ""
