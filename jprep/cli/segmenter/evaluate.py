"""`jprep segmenter evaluate`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jprep.cli.common.options import AS_JSON, FILE
from jprep.cli.common.output import echo, echo_json
from jprep.cli.completion.candidates import SEGMENTER
from jprep.io.escaping import one_line

if TYPE_CHECKING:
    from jprep.corpus.segmenters.comparison import WordCounts
    from jprep.corpus.step import Segmenter

_SHOWN = 60  # characters of each side of a difference


@click.command()
@click.argument("gold", nargs=-1, required=True, metavar="GOLD...", type=FILE)
@click.option("--using", type=SEGMENTER, default="pointwise", show_default=True, metavar="NAME")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set an option of the segmenter.")
@click.option("--against", type=SEGMENTER, metavar="NAME", help="Another segmenter to compare with.")
@click.option("--against-set", multiple=True, metavar="KEY=VALUE", help="Set an option of the other segmenter.")
@click.option(
    "--differences",
    type=click.IntRange(0, 1000),
    default=10,
    show_default=True,
    help="Differences to show of each kind.",
)
@AS_JSON
def evaluate(
    gold: tuple[Path, ...],
    using: str,
    overrides: tuple[str, ...],
    against: str | None,
    against_set: tuple[str, ...],
    differences: int,
    as_json: bool,
) -> None:
    """Compare the words of a segmenter with GOLD: files of word-segmented sentences, see `segmenter train`.

    Shows the F1 of word spans, and the commonest differences.

    \b
    Example:
      jprep segmenter evaluate dev.seg.txt.gz --using pointwise --set model=words.model --against jumandic
    """
    from jprep.cli.common.progress import show_status
    from jprep.corpus.config import make_named_step

    if against_set and not against:
        raise click.UsageError("--against-set needs --against")
    first = make_named_step("segmenter", using, overrides)
    second = make_named_step("segmenter", against, against_set) if against else None
    results = list[dict[str, Any]]()
    try:
        with show_status("segmenting"):
            for path in gold:
                results += _evaluate(path, first, second, differences)
    finally:
        for step in filter(None, (first, second)):
            step.close()
    if as_json:
        echo_json(results)
    else:
        _show(results)


def _evaluate(path: Path, first: Segmenter, second: Segmenter | None, shown: int) -> list[dict[str, Any]]:
    from jprep.corpus.segmenters.comparison import compare
    from jprep.corpus.segmenters.pointwise.training.labelled import read_words
    from jprep.errors import InputError

    counts = compare(read_words(str(path)), first, second)
    if not counts.first.sentences:
        raise InputError("there is no sentence in this file", where=str(path), fix="give a file with words")
    rows = [_result(path, "gold", first, counts.first, shown)]
    if second:
        rows.append(_result(path, "gold", second, counts.second, shown))
        rows.append(_result(path, second.name, first, counts.agreement, shown))
    return rows


def _result(path: Path, against: str, segmenter: Segmenter, counts: WordCounts, shown: int) -> dict[str, Any]:
    differing = [[*pair, number] for pair, number in counts.differences.most_common(shown)]
    return {
        "file": path.name,
        "segmenter": segmenter.name,
        "against": against,
        "sentences": counts.sentences,
        "words": counts.right,
        "f1": counts.f1,
        "equal_sentences": counts.equal_sentences,
        "differences": differing,
    }


def _show(results: list[dict[str, Any]]) -> None:
    for row in results:
        echo(f"{one_line(row['file'])}: {row['segmenter']} against {row['against']}")
        equal = f"{row['equal_sentences']:,} of {row['sentences']:,} sentences are equal"
        echo(f"  F1 of words {100 * row['f1']:.2f}; {equal}")
        for right, found, number in row["differences"]:
            echo(f"  {number:>7,}  {one_line(_shortened(right))}  →  {one_line(_shortened(found))}")


def _shortened(words: str) -> str:
    return words if len(words) <= _SHOWN else words[: _SHOWN - 1] + "…"
