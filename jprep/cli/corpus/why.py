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
    """Say what became of all documents with this id, page number or title, and where they stand."""
    import msgspec

    from jprep.corpus.corpus import Corpus
    from jprep.corpus.document import Document

    found = list(Corpus(folder).find(query))
    if as_json:
        rows = [msgspec.to_builtins(each.item) | {"part": each.part, "row": each.row} for each in found]
        click.echo(msgspec.json.encode(rows).decode())
    for each in [] if as_json else found:
        item, where = each.item, f"{each.part}, row {each.row}"
        if isinstance(item, Document):
            click.echo(f"{item.id}  {item.title}  is in the corpus  ({where})")
        else:
            why = f"was rejected by {item.step}: {item.reason}  {item.excerpt!r}"
            click.echo(f"{item.id}  {item.title}  {why}  ({where})")
    if not found:
        raise click.ClickException(f"no document of the inputs has the id or the title {query!r}")
