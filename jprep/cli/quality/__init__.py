"""`jprep quality`."""

import click

from jprep.cli.quality.judge import judge
from jprep.cli.quality.score import score
from jprep.cli.quality.train import train


@click.group()
def quality() -> None:
    """Train quality classifiers, and score documents with them."""


for command in (train, score, judge):
    quality.add_command(command)
