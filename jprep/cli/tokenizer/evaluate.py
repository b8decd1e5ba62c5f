"""`jprep tokenizer evaluate`."""

from __future__ import annotations

import os
import string
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.remote_output import FINISHED_OUTPUT, local_corpus
from jprep.cli.completion.candidates import PATTERN, SEGMENTER

if TYPE_CHECKING:
    from jprep.tokenizer.evaluation import Scores


@click.command()
@click.argument("folder", metavar="DIR", type=FINISHED_OUTPUT)
@click.argument("corpus", type=PATTERN)
@click.option("--against", "others", multiple=True, type=FINISHED_OUTPUT, help="Another tokenizer.")
@click.option("--limit-mb", type=click.FloatRange(0), default=20, show_default=True, help="Text to use; 0 for all.")
@click.option(
    "--segmenter",
    type=SEGMENTER,
    metavar="NAME",
    help="Segmenter for a text file. Default for a corpus: its own words.",
)
@AS_JSON
@click.option("--signature", "only_signature", is_flag=True, help="Print only a signature to cite for each tokenizer.")
def evaluate(
    folder: Path,
    corpus: str,
    others: tuple[Path, ...],
    limit_mb: float,
    segmenter: str | None,
    as_json: bool,
    only_signature: bool,
) -> None:
    """Evaluate the tokenizer in DIR on a CORPUS: tokens per character, losses, agreement with word boundaries, speed.

    CORPUS is a corpus directory, a text file with one paragraph per line, or `-` for standard input. Text of a file is
    normalized as the tokenizer's card says; word figures need a --segmenter.

    DIR and --against take tokenizer directories of jprep, a Hugging Face tokenizer.json, any directory that
    AutoTokenizer loads or its name on the Hub, and sentencepiece .model files.

    \b
    Example:
      jprep tokenizer evaluate work/jawiki/tokenizer --against gpt2/tokenizer.json work/jawiki/corpus
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")  # speed is that of one thread
    import msgspec

    from jprep.cli.common.progress import show_status
    from jprep.tokenizer.evaluation.compare import compare

    if as_json and only_signature:
        raise click.UsageError("give either --json or --signature")
    text = local_corpus(corpus)
    with show_status(f"evaluating {1 + len(others)} {'tokenizers' if others else 'tokenizer'}"):
        scores = compare([folder, *others], text, limit_mb=limit_mb, segmenter=segmenter or "")
    if as_json:
        echo_json([msgspec.to_builtins(each) | {"figures": each.figures()} for each in scores])
        return
    lines = [] if only_signature else [*_table(scores), *_details(scores), ""]
    cited = [each.signature for each in scores] if only_signature else [scores[0].signature]
    echo("\n".join(lines + cited))


_ROWS = {
    "characters_per_token": "{:.3f}",
    "bytes_per_token": "{:.3f}",
    "tokens": "{:,d}",
    "unknown_rate": "{:.3%}",
    "byte_rate": "{:.3%}",
    "lossless_rate": "{:.2%}",
    "boundary_recall": "{:.2%}",
    "boundary_precision": "{:.2%}",
    "boundary_f1": "{:.2%}",
    "word_cut_rate": "{:.2%}",
    "pieces_per_word": "{:.3f}",
    "vocabulary_used": "{:.2%}",
    "renyi_efficiency": "{:.4f}",
    "speed": "{:.1f} MB/s",
}
"""Formats of the figures, by the names that `card.json`, JSON output and docs/tokenizer.md use."""


def _table(scores: Sequence[Scores]) -> Iterator[str]:
    """Yield the lines of a table with a column per tokenizer; several are named by letters, to fit a terminal."""
    heads = [f"{each.tokenizer}: {each.model}, {each.vocab_size:,} ids" for each in scores]
    letters = string.ascii_uppercase[: len(scores)] if 1 < len(scores) <= len(string.ascii_uppercase) else ""
    yield from (f"{letter}  {head}" for letter, head in zip(letters, heads, strict=True)) if letters else heads
    rows = [["", *(letters or [""] * len(scores))]]
    figures = [each.figures() | {"speed": each.speed} for each in scores]
    for name, form in _ROWS.items():
        rows.append([name, *(form.format(each[name]) if name in each else "-" for each in figures)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for title, *cells in rows:
        aligned = (f"{cell:>{width}}" for cell, width in zip(cells, widths[1:], strict=True))
        yield "  ".join((f"{title:<{widths[0]}}", *aligned))


def _details(scores: Sequence[Scores]) -> Iterator[str]:
    for each in scores:
        if each.longest:
            yield from ("", f"{each.tokenizer}: the longest frequent words, in pieces")
            yield from (f"  {pieces}" for pieces in each.longest.values())
        if each.differing:
            yield from ("", f"{each.tokenizer}: the first paragraphs that decode to other text")
            for found in each.differing:
                yield f"  {found.paragraph:,} at {found.at:,}: {found.text!r} became {found.decoded!r}"
            yield from _characters("characters lost", each.lost)
            yield from _characters("characters added", each.gained)


def _characters(title: str, counts: dict[str, int]) -> Iterator[str]:
    if counts:
        yield f"  {title}: " + ", ".join(f"{character!r} {count:,}" for character, count in counts.items())
