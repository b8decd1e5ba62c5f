"""`jprep report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json, hint
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.report.build import Report

_DEFAULT = Path("report.html")
_FILE = click.Path(path_type=Path)


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FINISHED_OUTPUT)
@click.option("-o", "--output", type=OUTPUT_PATH, help="Output file, which is replaced. Default: report.html.")
@click.option(
    "--inputs",
    "places",
    multiple=True,
    metavar="PATH",
    type=click.Path(exists=True, path_type=Path),
    help="Recipe, file or directory of a corpus's inputs, to show pages as they stand there. "
    "Always searched: `inputs` beside the corpus, `downloads`, and the files of the current directory.",
)
@click.option("--beside", multiple=True, metavar="DIR|NAME", help="Another tokenizer to show beside those of PATH.")
@click.option("--text", "texts", multiple=True, type=_FILE, help="A text file to tokenize.")
@click.option("--samples", "prompts", multiple=True, metavar="TEXT", help="A prompt to run on each kept checkpoint.")
@AS_JSON
def report(
    paths: tuple[Path, ...],
    output: Path | None,
    places: tuple[Path, ...],
    beside: tuple[str, ...],
    texts: tuple[Path, ...],
    prompts: tuple[str, ...],
    as_json: bool,
) -> None:
    """Show corpora, tokenizers, datasets, runs and comparisons as one HTML file that needs no network.

    PATH is the directory of such an output, or a directory that holds several, as `jprep run` makes it. With --json
    only the figures are printed, and the file is written if -o names it.

    --beside takes directories of tokenizers, tokenizer.json and sentencepiece .model files, and names on the Hub. With
    --samples each checkpoint that a run has kept is exported and asked to continue the text, or to fill its masks.

    \b
    Example:
      jprep report work/jawiki --inputs data_recipes/jawiki.toml -o jawiki.html
    """
    from jprep.report.build import build_report
    from jprep.report.section import ReportOptions

    path = output or (None if as_json else _default())
    made = build_report(paths, ReportOptions(beside, texts, prompts), places=places)
    size = _write(made, path) if path else 0
    if as_json:
        echo_json(made.figures())
        return
    sections = counted(len(made.sections), "section")
    echo(f"{path}  {sections}, {size / 1e6:.1f} MB")
    hint("open it in a browser; it loads nothing from the network")


def _default() -> Path:
    """Return the default output file.

    Raises:
        ConfigError: a file of this name is not a report of jprep.
    """
    from jprep.errors import ConfigError
    from jprep.report.page import GENERATOR

    if _DEFAULT.is_file() and GENERATOR not in _DEFAULT.read_text(encoding="utf-8", errors="replace"):
        raise ConfigError("this file is not a report of jprep", where=str(_DEFAULT), fix="name the output file with -o")
    return _DEFAULT


def _write(made: Report, path: Path) -> int:
    """Write the page; return its size in bytes."""
    from jprep.engine.output_paths import check_output_file
    from jprep.io.atomic import write_atomic

    check_output_file(path)
    page = made.html().encode()
    write_atomic(path.resolve(), page)
    return len(page)
