"""`jprep tokenizer`."""

import click

from jprep.cli.tokenizer.evaluate import evaluate
from jprep.cli.tokenizer.export import export
from jprep.cli.tokenizer.extend import extend
from jprep.cli.tokenizer.train import train


@click.group()
def tokenizer() -> None:
    """Train a tokenizer, evaluate it, export it to other formats, extend one from elsewhere."""


for command in (train, evaluate, export, extend):
    tokenizer.add_command(command)
