"""The command that started a run, for `jprep service`: `command.json` in the run directory."""

from __future__ import annotations

from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.errors import ConfigError
from jprep.io.atomic import write_atomic

COMMAND = "command.json"


class StartCommand(msgspec.Struct, frozen=True):
    """A command line that resumes a run.

    Attributes:
        words: the arguments of `jprep`, `train` or `run` first.
        folder: the absolute path of the working directory, which relative paths in `words` refer to.
    """

    words: tuple[str, ...]
    folder: str


def write_command(run: Path, command: StartCommand) -> None:
    """Write the command that resumes a run.

    Raises:
        MachineError: it cannot be written.
    """
    write_atomic(run / COMMAND, encode_checksummed(command, indent=1))


def read_command(run: Path) -> StartCommand:
    """Return the command that last started a run.

    Raises:
        ConfigError: no run has been started there by a command of this version, or the file is damaged.
    """
    try:
        data = (run / COMMAND).read_bytes()
    except OSError as error:
        fix = "start the run once: `jprep train` writes the file when it begins or resumes a run"
        raise ConfigError(f"this run directory has no {COMMAND}", where=str(run), fix=fix) from error
    try:
        return decode_checksummed(data, StartCommand)
    except ValueError as error:
        fix = "resume the run once: `jprep train` writes the file again"
        raise ConfigError(f"{COMMAND} is damaged: {error}", where=str(run), fix=fix) from error
