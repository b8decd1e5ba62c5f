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

    QUERY is the id, page number or title, spelled exactly; or the id of an item of a test set, for the documents in
    which it was found.

    \b
    Example:
      jprep corpus why work/jawiki/corpus 琵琶湖
    """
    import msgspec

    from jprep.corpus.api import Corpus
    from jprep.corpus.document import Document
    from jprep.errors import ConfigError

    corpus = Corpus(folder)
    found, items = list(corpus.find(query)), list(corpus.test_items(query))
    if as_json:
        rows = [msgspec.to_builtins(each.item) | {"part": each.part, "row": each.row} for each in found]
        echo_json([*rows, *map(msgspec.to_builtins, items)])
    for row in [] if as_json else items:
        where = ", ".join(f"{each} ({share:.0%})" for each, share in zip(row.documents, row.shares, strict=True))
        text = (
            f"is an item that was found in {where}" if where else f"is an item that was not checked: {row.not_checked}"
        )
        echo(one_line(f"{row.item}  {text}"))
    for each in [] if as_json else found:
        item, where = each.item, f"{each.part}, row {each.row}"
        if isinstance(item, Document):
            echo(one_line(f"{item.id}  {item.title}  is in the corpus  ({where})"))
        else:
            rejected = f"was rejected by {item.step}: {item.reason}  {item.excerpt!r}"
            echo(one_line(f"{item.id}  {item.title}  {rejected}  ({where})"))
    if not found and not items:
        lists = shell_command("corpus", "export", folder, "--format", "jsonl")
        fix = (
            f"spell it exactly as in the corpus, with spaces instead of underscores; kept documents:  {lists}\n"
            f"         rejected documents: the columns `id` and `title` of the Parquet files in {folder / 'rejects'}"
        )
        what = f"no document has the id, page number or title {query!r}"
        if corpus.manifest.test_sets:
            what += ", and no item of a test set that was found or not looked for has this id"
        raise ConfigError(what, where=str(folder), fix=fix)
