"""`jprep corpus verify`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import AS_JSON, FOLDER
from jprep.cli.common.output import echo, echo_json
from jprep.io.escaping import one_line
from jprep.plurals import counted


@click.command()
@FOLDER
@AS_JSON
def verify(folder: Path, as_json: bool) -> None:
    """Compare each file with its hash, and each document's words with its text.

    \b
    Example:
      jprep corpus verify work/jawiki/corpus
    """
    from jprep.cli.common.progress import show_status
    from jprep.corpus.api import Corpus

    corpus = Corpus(folder)
    with show_status(f"verifying {counted(len(corpus.manifest.files), 'file')}"):
        damage = list(corpus.verify())
    if as_json:
        echo_json(damage)
    for found in [] if as_json else damage:
        echo(one_line(f"{found.path}: {found.what}"))
    if damage:
        raise click.exceptions.Exit(1)
    if not as_json:
        echo(
            f"verified {counted(len(corpus.manifest.files), 'file')} and {counted(len(corpus), 'document')}: no damage"
        )
