"""`jprep tokenizer evaluate`."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.output import echo, echo_json

if TYPE_CHECKING:
    from jprep.tokenizer.evaluation import Scores


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("corpus")
@click.option("--against", "others", multiple=True, type=click.Path(path_type=Path), help="Another to measure beside.")
@click.option("--limit-mb", type=click.FloatRange(0), default=20, show_default=True, help="Text to take; 0 is all.")
@click.option("--segmenter", metavar="NAME", help="Finds the words of a text; by default a corpus's own are taken.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--signature", "only_signature", is_flag=True, help="Print a line to cite for each tokenizer, no more.")
def evaluate(
    folder: Path,
    corpus: str,
    others: tuple[Path, ...],
    limit_mb: float,
    segmenter: str | None,
    as_json: bool,
    only_signature: bool,
) -> None:
    """Measure the tokenizer in DIR on a CORPUS: what it costs, what it loses, which words it keeps.

    CORPUS is a corpus's folder, a text file with a paragraph a line, or `-`. Text of a file is normalised as the
    tokenizer's card says; its words are not known unless a --segmenter finds them.

    OTHER tokenizers are folders of jprep's, a tokenizer.json of Hugging Face's or its folder, and sentencepiece's
    .model files. Nothing is downloaded.

    \b
    jprep tokenizer evaluate work/jawiki/tokenizer --against gpt2/tokenizer.json work/jawiki/corpus
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # speed is that of one thread
    import msgspec

    from jprep.tokenizer.evaluation.compare import compare

    if as_json and only_signature:
        raise click.UsageError("give either --json or --signature")
    scores = compare([folder, *others], corpus, limit_mb=limit_mb, segmenter=segmenter or "")
    if as_json:
        echo_json([msgspec.to_builtins(each) | {"figures": each.figures()} for each in scores])
        return
    lines = [] if only_signature else [*_table(scores), *_details(scores), ""]
    cited = [each.signature for each in scores] if only_signature else [scores[0].signature]
    echo("\n".join(lines + cited))


_ROWS = {
    "characters_per_token": ".3f",
    "bytes_per_token": ".3f",
    "tokens": ",d",
    "unknown_rate": ".3%",
    "byte_rate": ".3%",
    "lossless_rate": ".2%",
    "boundary_recall": ".2%",
    "boundary_precision": ".2%",
    "boundary_f1": ".2%",
    "pieces_per_word": ".3f",
    "vocabulary_used": ".2%",
    "renyi_efficiency": ".4f",
    "speed": ".1f",
}
"""Figures by the names that they have everywhere: in `card.json`, in JSON and in docs/tokenizer.md."""


def _table(scores: Sequence[Scores]) -> Iterator[str]:
    """A column for each tokenizer; many of them go by letters, that the table may fit a terminal."""
    heads = [f"{each.tokenizer}: {each.model}, {each.vocab_size:,} ids" for each in scores]
    letters = string.ascii_uppercase[: len(scores)] if 1 < len(scores) <= len(string.ascii_uppercase) else ""
    yield from (f"{letter}  {head}" for letter, head in zip(letters, heads, strict=True)) if letters else heads
    rows = [["", *(letters or [""] * len(scores))]]
    figures = [each.figures() | {"speed": each.speed} for each in scores]
    for name, form in _ROWS.items():
        rows.append([name, *(format(each[name], form) if name in each else "-" for each in figures)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, *cells in rows:
        aligned = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((f"{title:<{widths[0]}}", *aligned))


def _details(scores: Sequence[Scores]) -> Iterator[str]:
    for each in scores:
        if each.longest:
            yield from ("", f"{each.tokenizer}: the longest of the frequent words")
            yield from (f"  {pieces}" for pieces in each.longest.values())
        if each.differing:
            yield from ("", f"{each.tokenizer}: paragraphs that do not come back, the first")
            for found in each.differing:
                yield f"  {found.paragraph:,} at {found.at:,}: {found.text!r} became {found.decoded!r}"
            yield from _characters("characters lost", each.lost)
            yield from _characters("characters that were not there", each.gained)


def _characters(title: str, counts: dict[str, int]) -> Iterator[str]:
    if counts:
        yield f"  {title}: " + ", ".join(f"{character!r} {count:,}" for character, count in counts.items())
