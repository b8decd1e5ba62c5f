"""The options `--quiet` and `--verbose`, which every command has."""

from __future__ import annotations

from typing import Any

import click

from jprep.cli.common.output import Level, set_level


def _choose(context: click.Context, option: click.Parameter, value: bool) -> None:
    if value:
        set_level(Level.QUIET if option.name == "quiet" else Level.VERBOSE)


def add_verbosity(command: click.Command) -> None:
    """Add the two options to a command, and to the commands below it."""
    flag: dict[str, Any] = {"is_flag": True, "expose_value": False, "is_eager": True, "callback": _choose}
    command.params.append(click.Option(["-q", "--quiet"], help="Print only results, warnings and errors.", **flag))
    command.params.append(click.Option(["-v", "--verbose"], help="Print details, tracebacks among them.", **flag))
    for child in command.commands.values() if isinstance(command, click.Group) else ():
        add_verbosity(child)
