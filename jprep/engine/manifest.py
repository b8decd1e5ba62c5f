"""Manifests: the file that is written last into a folder, says what it holds, and makes it whole."""

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
        what: what lies in its folder, e.g. `corpus`.
        command: what makes that, e.g. `jprep corpus build`.
        work: what that command does, e.g. `build`.
        again: the same as a verb, for its being done once more.

    Raises:
        ConfigError: it is not there.
        DamagedError: it is not what was written.
        MachineError: it cannot be read.
    """
    try:
        return decode_checksummed(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError) as error:
        fix = f"give the folder of `{command} -o`; if the {work} was stopped, run it again"
        raise ConfigError(f"there is no finished {what} here", where=str(path.parent), fix=fix) from error
    except ValueError as error:
        fix = f"`{command} … --restart` {again} it again"
        raise DamagedError(f"{path.name} cannot be read: {error}", where=str(path.parent), fix=fix) from error
    except OSError as error:
        raise translate_os_error(error) from error


def write_manifest(path: Path, manifest: object) -> None:
    """Commit a manifest: from now on its folder is whole."""
    write_atomic(path, encode_checksummed(manifest, indent=1))
