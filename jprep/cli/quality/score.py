"""`jprep quality score`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json, table
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.io.escaping import one_line
from jprep.plurals import counted

if TYPE_CHECKING:
    from jprep.corpus.quality.scoring import Example, ScoreSummary

_BAR = 40


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=FINISHED_OUTPUT)
@click.option("--model", required=True, type=FINISHED_OUTPUT, help="Directory of `jprep quality train`.")
@click.option("--field", default="text", show_default=True, help="Field with the text, in JSONL and Parquet files.")
@click.option(
    "--examples",
    type=click.IntRange(0, 1000),
    default=3,
    show_default=True,
    help="Documents to show with the lowest and with the highest scores.",
)
@AS_JSON
def score(paths: tuple[Path, ...], model: Path, field: str, examples: int, as_json: bool) -> None:
    """Show how a classifier scores the documents of corpora and files.

    \b
    Example:
      jprep quality score work/jawiki/corpus --model work/quality
    """
    from jprep.cli.common.progress import show_status
    from jprep.corpus.quality.scoring import score_documents

    with show_status("scoring"):
        found = score_documents(paths, model, text=field, examples=examples)
    if as_json:
        echo_json(found)
        return
    _show(found)


def _show(found: ScoreSummary) -> None:
    empty = f", {found.empty:,} empty" if found.empty else ""
    mean = f", mean score {found.mean:.3f}" if found.documents else ""
    echo(f"{counted(found.documents, 'document')}{mean}{empty}")
    table("rejected by the readers", found.rejects)
    if not found.documents:
        return
    most = max(found.histogram)
    echo("\nscore      documents")
    for number, count in enumerate(found.histogram):
        bar = "█" * round(_BAR * count / most)
        echo(f"{number / 10:.1f}–{(number + 1) / 10:.1f}  {count:>10,}  {bar}".rstrip())
    echo("\nquantiles  " + "  ".join(f"{name} {value:.3f}" for name, value in found.quantiles.items()))
    _show_examples("lowest", found.lowest)
    _show_examples("highest", found.highest)


def _show_examples(title: str, examples: list[Example]) -> None:
    if examples:
        echo(f"\n{title}")
    for each in examples:
        echo(f"  {each.score:.3f}  {one_line(each.id)}  {one_line(each.excerpt)}")
