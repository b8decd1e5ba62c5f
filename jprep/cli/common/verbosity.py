"""The options `--quiet`, `--verbose` and `--log-file` of every command."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jprep.cli.common.log_file import log_message, open_log_file
from jprep.cli.common.output import Level, set_level
from jprep.cli.common.shell_command import current_command


def _choose(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        set_level(Level.QUIET if option.name == "quiet" else Level.VERBOSE)


def _log(context: click.Context, option: click.Parameter, value: Path | None) -> None:
    if value and not context.resilient_parsing:
        open_log_file(value)
        log_message(f"$ {current_command()}")


def add_verbosity(command: click.Command) -> None:
    """Add the options to a command and its subcommands."""
    common: dict[str, Any] = {"expose_value": False, "is_eager": True}
    flag: dict[str, Any] = {"is_flag": True, "callback": _choose, **common}
    command.params.append(click.Option(["-q", "--quiet"], help="Print only results, warnings and errors.", **flag))
    command.params.append(click.Option(["-v", "--verbose"], help="Print details, including tracebacks.", **flag))
    path = click.Path(path_type=Path)
    about = "Append messages and progress to a file, with times."
    command.params.append(click.Option(["--log-file"], type=path, metavar="FILE", help=about, callback=_log, **common))
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        add_verbosity(child)
