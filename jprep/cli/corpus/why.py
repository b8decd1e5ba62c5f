"""`jprep corpus why`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import AS_JSON, FOLDER
from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.shell_command import shell_command
from jprep.io.escaping import one_line


@click.command()
@FOLDER
@click.argument("query")
@AS_JSON
def why(folder: Path, query: str, as_json: bool) -> None:
    """Show whether the documents with an id, page number or title were kept or rejected, why, and in which file.

    QUERY is the id, page number or title, spelled exactly.

    \b
    Example:
      jprep corpus why work/jawiki/corpus 琵琶湖
    """
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
        fix = (
            f"spell it exactly as in the corpus, with spaces instead of underscores; kept documents:  {lists}\n"
            f"         rejected documents: the columns `id` and `title` of the Parquet files in {folder / 'rejects'}"
        )
        raise ConfigError(f"no document has the id, page number or title {query!r}", where=str(folder), fix=fix)
