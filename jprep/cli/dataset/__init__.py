"""`jprep dataset`."""

import click

from jprep.cli.dataset.export import export
from jprep.cli.dataset.inspect import inspect
from jprep.cli.dataset.pack import pack


@click.group()
def dataset() -> None:
    """Pack a corpus as tokens, inspect the result, export it to other formats."""


for command in (pack, inspect, export):
    dataset.add_command(command)
