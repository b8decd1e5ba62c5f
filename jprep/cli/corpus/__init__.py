"""`jprep corpus`."""

import click

from jprep.cli.corpus.build import build
from jprep.cli.corpus.export import export
from jprep.cli.corpus.fetch import fetch
from jprep.cli.corpus.filter import filter_
from jprep.cli.corpus.signals import signals
from jprep.cli.corpus.stats import stats
from jprep.cli.corpus.templates import templates
from jprep.cli.corpus.verify import verify
from jprep.cli.corpus.why import why


@click.group()
def corpus() -> None:
    """Build clean, sentence-split, word-segmented text from raw dumps."""


for command in (build, filter_, fetch, templates, signals, stats, export, verify, why):
    corpus.add_command(command)
