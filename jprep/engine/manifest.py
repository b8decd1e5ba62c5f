"""Manifests: the files that describe finished outputs; each is written last into its directory."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.errors import ConfigError, DamagedError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import translate_os_error

T = TypeVar("T")


def read_manifest(path: Path, kind: type[T], *, what: str, command: str, work: str, again: str = "makes") -> T:
    """Read a manifest.

    Args:
        path: the file.
        kind: its type.
        what: the output, e.g. `corpus`.
        command: the command that makes it, e.g. `jprep corpus build`.
        work: the command's work as a noun, e.g. `build`.
        again: the same as a verb, for doing it again.

    Raises:
        ConfigError: it does not exist.
        DamagedError: it is damaged.
        MachineError: it cannot be read.
    """
    try:
        return decode_checksummed(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError) as error:
        fix = f"give the directory of `{command} -o`; if the {work} was interrupted, run it again"
        raise ConfigError(f"there is no finished {what} here", where=str(path.parent), fix=fix) from error
    except ValueError as error:
        fix = f"`{command} … --restart` {again} it again"
        raise DamagedError(f"{path.name} cannot be read: {error}", where=str(path.parent), fix=fix) from error
    except OSError as error:
        raise translate_os_error(error) from error


def write_manifest(path: Path, manifest: object) -> None:
    """Write a manifest atomically: from now on the output is finished."""
    write_atomic(path, encode_checksummed(manifest, indent=1))
