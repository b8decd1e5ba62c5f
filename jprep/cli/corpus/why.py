"""`jprep corpus why`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.shell_command import shell_command
from jprep.cli.corpus.stats import AS_JSON, FOLDER
from jprep.io.escaping import one_line


@click.command()
@FOLDER
@click.argument("query")
@AS_JSON
def why(folder: Path, query: str, as_json: bool) -> None:
    """Say what became of all documents with this id, page number or title, and where they stand."""
    import msgspec

    from jprep.corpus.api import Corpus
    from jprep.corpus.document import Document
    from jprep.errors import ConfigError

    found = list(Corpus(folder).find(query))
    if as_json:
        echo_json([msgspec.to_builtins(each.item) | {"part": each.part, "row": each.row} for each in found])
    for each in [] if as_json else found:
        item, where = each.item, f"{each.part}, row {each.row}"
        if isinstance(item, Document):
            echo(one_line(f"{item.id}  {item.title}  is in the corpus  ({where})"))
        else:
            rejected = f"was rejected by {item.step}: {item.reason}  {item.excerpt!r}"
            echo(one_line(f"{item.id}  {item.title}  {rejected}  ({where})"))
    if not found:
        lists = shell_command("corpus", "export", folder, "--format", "jsonl")
        fix = f"give it exactly as it is in the output of:  {lists}"
        raise ConfigError(f"no document has the id, page number or title {query!r}", where=str(folder), fix=fix)
