"""`jprep corpus why`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.corpus.stats import AS_JSON, FOLDER


@click.command()
@FOLDER
@click.argument("query")
@AS_JSON
def why(folder: Path, query: str, as_json: bool) -> None:
    """Say what became of the document with this id, page number or title."""
    import msgspec

    from jprep.corpus.corpus import Corpus
    from jprep.corpus.document import Document

    found = list(Corpus(folder).why(query))
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
    for item in [] if as_json else found:
        if isinstance(item, Document):
            click.echo(f"{item.id}  {item.title}  is in the corpus")
        else:
            click.echo(f"{item.id}  {item.title}  was rejected by {item.step}: {item.reason}  {item.excerpt!r}")
    if not found:
        raise click.ClickException(f"no document of the inputs has the id or the title {query!r}")
