"""`jprep corpus signals`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.options import AS_JSON, FOLDER
from jprep.cli.common.output import echo, echo_json, note
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.corpus.refilter.survey import Distribution, Drops
    from jprep.corpus.step import Unit

_BAR = 40


@click.command()
@FOLDER
@click.option("--signal", "names", multiple=True, metavar="NAME", help="Show only this signal or column, kept or not.")
@click.option("--preset", "presets", multiple=True, metavar="NAME", help="Show what a preset would drop.")
@click.option(
    "--threshold", "conditions", multiple=True, metavar="CONDITION", help="Show what this would drop: 'url_share<=0.3'."
)
@click.option(
    "--per", type=click.Choice(["document", "line"]), default="document", help="What to measure.", show_default=True
)
@AS_JSON
def signals(
    folder: Path,
    names: tuple[str, ...],
    presets: tuple[str, ...],
    conditions: tuple[str, ...],
    per: Unit,
    as_json: bool,
) -> None:
    """Show how the signals of a corpus are distributed, and what thresholds would drop.

    All signals that the corpus keeps, or those of --signal. Of a large corpus, every n-th document is measured. With
    --per line, each line is measured and judged as if it were a document, as filters with `per = "line"` do.

    \b
    Example:
      jprep corpus signals work/web/corpus --signal hiragana_share --threshold 'hiragana_share>=0.2'
    """
    from jprep.corpus.refilter.request import parse_condition
    from jprep.corpus.refilter.survey import survey
    from jprep.corpus.store import read_manifest

    refs: list[Any] = [*({"preset": name} for name in presets), *map(parse_condition, conditions)]
    found = survey(folder, read_manifest(folder), list(names), refs, per)
    if as_json:
        echo_json(found)
        return
    of_all = f" of {found.documents:,}" if per == "document" else ""
    echo(f"{found.measured:,}{of_all} {per}s measured")
    if not found.signals and not found.filters:
        note("this corpus keeps no signals: measure some, e.g. --signal characters, or give --preset NAME")
    for distribution in found.signals:
        _show_distribution(distribution, f"{per}s")
    for label, drops in zip([*presets, *conditions], found.filters, strict=True):
        _show_drops(label, drops, found.measured, f"{per}s")


def _show_distribution(found: Distribution, units: str) -> None:
    echo(f"\n{one_line(found.column)}: {found.documents:,} {units}")
    echo("  quantiles  " + "  ".join(f"{name}: {value:.4g}" for name, value in found.quantiles.items()))
    most = max(found.counts, default=0)
    for edge, count in zip(found.edges, found.counts, strict=False):
        echo(f"  {edge:>12.4g}  {'█' * -(-_BAR * count // most):<{_BAR}}  {count:,}")


def _show_drops(label: str, drops: Drops, measured: int, units: str) -> None:
    share = 100 * drops.documents / measured if measured else 0
    echo(f"\n{one_line(label)} would drop {drops.documents:,} {units} ({share:.2f} %)")
    for reason, count in sorted(drops.reasons.items(), key=lambda item: (-item[1], item[0])):
        echo(f"  {one_line(reason)}  {count:,}")
    for example in drops.examples:
        values = ", ".join(f"{name} {value:.4g}" for name, value in example.measures.items())
        echo(one_line(f"  {example.id}  {example.reason}  {values}  {example.excerpt}"))
