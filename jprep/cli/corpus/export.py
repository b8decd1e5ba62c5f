"""`jprep corpus export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import executor_options, open_executor
from jprep.cli.common.options import EXECUTOR, EXECUTOR_OPTIONS, FOLDER, WORKERS
from jprep.cli.common.output import content_stream, note
from jprep.cli.common.remote_output import OUTPUT_PATH_OR_URL, Url, local_file, local_output
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.corpus.api import Corpus
    from jprep.engine.executors.choice import ExecutorRef


@click.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["text", "words", "jsonl"]), default="text", show_default=True)
@click.option(
    "-o", "--output", type=OUTPUT_PATH_OR_URL, help="Output file or URL, which is replaced. Default: standard output."
)
@click.option("--limit", type=click.IntRange(1), help="Stop after this number of documents.")
@click.option(
    "--unit",
    type=click.Choice(["sentence", "paragraph"]),
    default="sentence",
    show_default=True,
    help="Unit per line, for text and words.",
)
@click.option("--no-blank-lines", is_flag=True, help="Omit the blank line after each document.")
@click.option(
    "--lines-per-file",
    type=click.IntRange(1),
    metavar="N",
    help="Write files of N lines into the directory -o. Interrupt at any time and rerun to resume.",
)
@WORKERS
@EXECUTOR
@EXECUTOR_OPTIONS
def export(
    folder: Path,
    form: str,
    output: Path | Url | None,
    limit: int | None,
    unit: str,
    no_blank_lines: bool,
    lines_per_file: int | None,
    workers: int | None,
    executor: str | None,
    overrides: tuple[str, ...],
) -> None:
    """Write a corpus as text.

    \b
    text   one sentence per line, a blank line between documents
    words  the same with spaces between words, the form of published recipes; loses the text's own spaces
    jsonl  whole documents, lossless

    \b
    Example:
      jprep corpus export work/jawiki/corpus --format jsonl > jawiki.jsonl
    """
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.corpus.api import Corpus

    if lines_per_file:
        refuse_unused("--lines-per-file writes the whole corpus", "limit")
        if output is None:
            raise click.UsageError("--lines-per-file needs the output directory -o")
        how = (workers, executor, executor_options(overrides))
        _write_files(Corpus(folder), output, lines_per_file, (form, unit, not no_blank_lines), how)
        return
    refuse_unused("one file is written by one process", "workers", "executor", "overrides")
    _write_file(Corpus(folder), output, (form, unit, not no_blank_lines), limit)


def _write_file(corpus: Corpus, output: Path | Url | None, form: tuple[str, str, bool], limit: int | None) -> None:
    from jprep.engine.output_paths import check_output_file
    from jprep.io.atomic import atomic_path

    name, unit, blank_lines = form
    if output is None:
        corpus.export(content_stream(), name, limit=limit, unit=unit, blank_lines=blank_lines)
        return
    if isinstance(output, Path):
        check_output_file(output)
    with (
        local_file(output) as path,
        atomic_path(path.resolve()) as temporary,
        temporary.open("w", encoding="utf-8", newline="\n") as out,
    ):
        written = corpus.export(out, name, limit=limit, unit=unit, blank_lines=blank_lines)
    note(f"wrote {counted(written, 'document')} to {output}")


def _write_files(
    corpus: Corpus,
    output: Path | Url,
    lines_per_file: int,
    form: tuple[str, str, bool],
    how: tuple[int | None, str | None, ExecutorRef | None],
) -> None:
    from jprep.corpus.exporting.text_files import export_text_files

    chosen = corpus.text_format(*form)
    with local_output(output, "corpus export") as out, open_executor(*how) as (executor, progress):
        exported = export_text_files(corpus.folder, corpus.manifest, out, lines_per_file, chosen, executor, progress)
    counts = exported.counts
    lines, files = counted(counts.get("lines", 0), "line"), counted(len(exported.files), "file")
    note(f"wrote {counted(counts.get('documents', 0), 'document')} as {lines} in {files} to {output}")
