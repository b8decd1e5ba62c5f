"""`jprep dataset`: from a corpus and a tokenizer to tokens on disk."""

import click

from jprep.cli.dataset.export import export
from jprep.cli.dataset.inspect import inspect
from jprep.cli.dataset.pack import pack


@click.group()
def dataset() -> None:
    """Pack a corpus as tokens, see where a token came from, write further formats."""


for command in (pack, inspect, export):
    dataset.add_command(command)
