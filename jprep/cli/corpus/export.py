"""`jprep corpus export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import content_stream, note
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.stats import FOLDER


@click.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["text", "words", "jsonl"]), default="text", show_default=True)
@click.option("-o", "--output", type=OUTPUT_PATH, help="A file, which is replaced; standard output by default.")
@click.option("--limit", type=click.IntRange(1), help="Stop after so many documents.")
def export(folder: Path, form: str, output: Path | None, limit: int | None) -> None:
    """Write a corpus as text.

    \b
    text   one sentence a line, a blank line between documents
    words  the same with spaces between words, the form of published recipes; it loses the text's own spaces
    jsonl  whole documents; nothing is lost
    """
    from jprep.corpus.api import Corpus
    from jprep.engine.output_directory import check_output_file
    from jprep.io.atomic import atomic_path

    if output is not None:
        check_output_file(output)
    corpus = Corpus(folder)
    if output is None:
        corpus.export(content_stream(), form, limit=limit)
        return
    with atomic_path(output.resolve()) as temporary, temporary.open("w", encoding="utf-8", newline="\n") as out:
        written = corpus.export(out, form, limit=limit)
    note(f"{written:,} documents in {output}")
