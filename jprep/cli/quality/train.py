"""`jprep quality train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON, RESTART
from jprep.cli.common.output import echo, echo_json, next_steps, table
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT

if TYPE_CHECKING:
    from jprep.corpus.quality.training import QualityConfig, TrainingInput


@click.command()
@click.option("--good", multiple=True, type=FINISHED_OUTPUT, metavar="PATH", help="Text of high quality.")
@click.option("--bad", multiple=True, type=FINISHED_OUTPUT, metavar="PATH", help="Text of low quality.")
@click.option(
    "--labels", type=FINISHED_OUTPUT, metavar="DIR", help="Labels of `jprep quality judge`, for both classes."
)
@click.option("--threshold", type=float, help="The lowest score of a label that is good.")
@click.option("--field", default="text", show_default=True, help="Field with the text, in JSONL and Parquet files.")
@click.option("-o", "--output", required=True, type=OUTPUT_PATH, help="Output directory.")
@click.option(
    "--max-documents", type=int, default=100_000, show_default=True, help="Documents of each class to use at most."
)
@click.option("--passes", type=int, default=3, show_default=True, help="Passes over the documents.")
@click.option("--learning-rate", type=float, default=4.0, show_default=True, help="Learning rate of AdaGrad.")
@click.option(
    "--ngrams", default="2-4", show_default=True, metavar="A-B", help="Lengths of the n-grams, in characters."
)
@click.option("--bits", type=int, default=20, show_default=True, help="The model has 2 ** BITS weights of two bytes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed for the choice and order of documents.")
@RESTART
@AS_JSON
def train(
    good: tuple[Path, ...],
    bad: tuple[Path, ...],
    labels: Path | None,
    threshold: float | None,
    field: str,
    output: Path,
    restart: bool,
    as_json: bool,
    **options: object,
) -> None:
    """Train a classifier that tells good text from bad, by character n-grams.

    PATH is a corpus, or a text, JSONL or Parquet file. One document in ten is held out: half of those calibrate the
    score, the other half give the figures. An interrupted training starts from the beginning.

    \b
    Example:
      jprep quality train --good work/jawiki/corpus --bad junk.jsonl -o work/quality
    """
    from jprep.cli.common.progress import show_status
    from jprep.cli.common.shell_command import shell_command
    from jprep.corpus.quality import training
    from jprep.corpus.quality.labelled import add_labels

    config = _config(options)
    if (labels is None) != (threshold is None):
        raise click.UsageError("give --labels and --threshold together")
    if labels is None and not (good and bad):
        raise click.UsageError("give at least one --good and one --bad, or --labels")
    with show_status("training") as report:
        inputs = _documents(good, field), _documents(bad, field)
        if labels is not None and threshold is not None:
            inputs = add_labels(inputs, labels, threshold)
        card = training.train(*inputs, config, output, restart=restart, report=report)
    if as_json:
        names = ("fingerprint", "documents", "rejects", "figures", "weights_sha256")
        echo_json({"folder": str(output)} | {name: getattr(card, name) for name in names})
        return
    echo(str(output))
    for part, numbers in card.documents.items():
        table(f"documents, {part}", numbers)
    for name, rejects in card.rejects.items():
        table(f"rejected by the readers, {name}", rejects)
    table("on the documents of `test`, the classes balanced", card.figures)
    next_steps(shell_command("quality", "score", good[0] if good else "PATH", "--model", output))


def _config(options: dict[str, object]) -> QualityConfig:
    """Return the options of a training.

    Raises:
        ConfigError: one is out of its range.
    """
    import re

    from jprep.config import parse_config
    from jprep.corpus.quality.training import QualityConfig
    from jprep.errors import ConfigError

    ngrams, bits = options.pop("ngrams"), options.pop("bits")
    found = re.fullmatch(r"(\d)-(\d)", str(ngrams))
    if not found or found[1] > found[2]:
        raise ConfigError(f"expected two lengths, got {ngrams!r}", where="--ngrams", fix="e.g. --ngrams 2-4")
    lengths = {"shortest": int(found[1]), "longest": int(found[2])}
    return parse_config(options | {"ngrams": lengths | {"bits": bits}}, QualityConfig, where="`jprep quality train`")


def _documents(paths: tuple[Path, ...], field: str) -> TrainingInput:
    from collections import Counter

    from jprep.corpus.quality.inputs import describe_inputs, read_documents
    from jprep.corpus.quality.training import TrainingInput

    described = [each | {"field": field} for each in describe_inputs(paths)]
    rejects = Counter[str]()
    return TrainingInput(
        described, lambda: (doc for path in paths for doc in read_documents(path, field, rejects)), rejects
    )
