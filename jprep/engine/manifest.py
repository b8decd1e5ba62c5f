"""Manifests: the files that describe finished outputs; each is written last into its directory."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.output_kinds import KINDS, find_outputs
from jprep.errors import ConfigError, DamagedError
from jprep.io.atomic import write_atomic
from jprep.io.os_errors import translate_os_error

T = TypeVar("T")

_MOST = 3  # outputs that an error names


def read_manifest(path: Path, kind: type[T], *, what: str, command: str) -> T:
    """Read a manifest.

    Args:
        path: the file.
        kind: its type.
        what: the output, e.g. `corpus`.
        command: the command that makes it, e.g. `jprep corpus build`.

    Raises:
        ConfigError: it does not exist.
        DamagedError: it is damaged.
        MachineError: it cannot be read.
    """
    try:
        return decode_checksummed(path.read_bytes(), kind)
    except (FileNotFoundError, NotADirectoryError) as error:
        fix = f"give the directory of `{command} -o`; if it was interrupted, run it again"
        if inside := _finished_inside(path.parent, what):
            fix = f"give {' or '.join(map(str, inside[:_MOST]))}"
        raise ConfigError(f"there is no finished {what} here", where=str(path.parent), fix=fix) from error
    except ValueError as error:
        fix = f"make it again: `{command.removeprefix('jprep ')}` with --restart"
        raise DamagedError(
            f"{path.name} cannot be read: {error}",
            where=str(path.parent),
            fix=fix,
            options=("--restart",),
            command=command,
        ) from error
    except OSError as error:
        raise translate_os_error(error) from error


def _finished_inside(folder: Path, kind: str) -> list[Path]:
    """Return the finished outputs of a kind in the folders of a folder, such as that of a recipe's outputs."""
    [manifest] = [each.manifest for each in KINDS if each.name == kind] or [""]
    found = sorted(folder.glob(f"*/{manifest}")) if manifest else []
    outputs = ((path.parent, each) for path in found for each in find_outputs(path.parent))
    return [path for path, each in outputs if each.finished and each.kind.name == kind]


def write_manifest(path: Path, manifest: object) -> None:
    """Write a manifest atomically: from now on the output is finished."""
    write_atomic(path, encode_checksummed(manifest, indent=1))
