"""`jprep segmenter`."""

import click

from jprep.cli.segmenter.evaluate import evaluate
from jprep.cli.segmenter.train import train


@click.group()
def segmenter() -> None:
    """Train models of the segmenter `pointwise`, and evaluate segmenters."""


for command in (train, evaluate):
    segmenter.add_command(command)
