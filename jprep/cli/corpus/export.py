"""`jprep corpus export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import FOLDER
from jprep.cli.common.output import content_stream, note
from jprep.cli.common.remote_output import OUTPUT_PATH_OR_URL, Url, local_file


@click.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["text", "words", "jsonl"]), default="text", show_default=True)
@click.option(
    "-o", "--output", type=OUTPUT_PATH_OR_URL, help="Output file or URL, which is replaced. Default: standard output."
)
@click.option("--limit", type=click.IntRange(1), help="Stop after this number of documents.")
def export(folder: Path, form: str, output: Path | Url | None, limit: int | None) -> None:
    """Write a corpus as text.

    \b
    text   one sentence per line, a blank line between documents
    words  the same with spaces between words, the form of published recipes; loses the text's own spaces
    jsonl  whole documents, lossless
    """
    from jprep.corpus.api import Corpus
    from jprep.engine.output_directory import check_output_file
    from jprep.io.atomic import atomic_path

    if isinstance(output, Path):
        check_output_file(output)
    corpus = Corpus(folder)
    if output is None:
        corpus.export(content_stream(), form, limit=limit)
        return
    with (
        local_file(output) as path,
        atomic_path(path.resolve()) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as out,
    ):
        written = corpus.export(out, form, limit=limit)
    note(f"wrote {written:,} documents to {output}")
