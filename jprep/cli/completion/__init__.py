"""`jprep completion` installs, shows and removes shell completion."""

from __future__ import annotations

import click

from jprep.cli.completion.commands import install, remove, show


@click.group()
def completion() -> None:
    """Complete commands, options, files and names in bash, zsh or fish."""


for command in (install, show, remove):
    completion.add_command(command)
