"""`jprep segmenter train`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON, FILE
from jprep.cli.common.output import echo, echo_json, next_steps, table
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.shell_command import shell_command
from jprep.cli.completion.candidates import SEGMENTER

if TYPE_CHECKING:
    from jprep.corpus.segmenters.pointwise.training.trainer import TrainingConfig

_SIZES = ("characters", "pairs", "triples", "quadruples", "neighbours", "words", "second")


@click.command()
@click.option("--words", multiple=True, type=FILE, metavar="FILE", help="Word-segmented sentences.")
@click.option("--text", multiple=True, type=FILE, metavar="FILE", help="Text with one sentence per line.")
@click.option(
    "--teacher", type=SEGMENTER, default="jumanpp", show_default=True, metavar="NAME", help="Labels the --text."
)
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Set an option of the teacher.")
@click.option(
    "--dictionary",
    default="jumandic",
    show_default=True,
    metavar="NAME|FILE",
    help="`jumandic` (the installed package), `none`, or a file with one word per line.",
)
@click.option("-o", "--output", required=True, type=OUTPUT_PATH, help="File of the model.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@click.option("--passes", type=int, default=4, show_default=True, help="Passes over the sentences.")
@click.option("--learning-rate", type=float, default=0.15, show_default=True, help="Learning rate of AdaGrad.")
@click.option("--sizes", default="", metavar="NAME=BITS,…", help=f"Sizes of tables: {', '.join(_SIZES)}.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order of the batches.")
@click.option("--license", "license_name", default="", metavar="TEXT", help="Licence of the model, for its card.")
@click.option("--note", default="", metavar="TEXT", help="Free text for the card of the model.")
@AS_JSON
def train(
    words: tuple[Path, ...],
    text: tuple[Path, ...],
    teacher: str,
    overrides: tuple[str, ...],
    dictionary: str,
    output: Path,
    force: bool,
    license_name: str,
    note: str,
    as_json: bool,
    **options: object,
) -> None:
    """Train a model of the segmenter `pointwise`.

    A FILE of --words holds a sentence per line, its words with spaces between them or as a JSON list, or a treebank in
    CoNLL-U. A file that is named twice counts twice. Files may be compressed.

    \b
    Example:
      jprep segmenter train --words train.seg.txt.gz --text sentences.txt --teacher jumanpp -o words.model
    """
    from jprep.cli.common.progress import show_status
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.corpus.segmenters.pointwise.model_file import write_model
    from jprep.corpus.segmenters.pointwise.training.inputs import TrainingInputs
    from jprep.corpus.segmenters.pointwise.training.trainer import train as train_model
    from jprep.engine.output_paths import check_new_file

    if not words and not text:
        raise click.UsageError("give at least one --words or --text")
    if not text:
        refuse_unused("only --text has a teacher", "teacher", "overrides")
    check_new_file(output, force=force)
    config = _config(options)
    inputs = TrainingInputs(words, text, teacher if text else "", overrides, dictionary)
    with show_status("training") as report, inputs:
        model = train_model(
            inputs.sentences(),
            inputs.dictionary(config.features),
            config,
            described=inputs.described(),
            license_name=license_name,
            note=note,
            report=report,
        )
    write_model(output, model)
    size = output.stat().st_size
    if as_json:
        echo_json({"model": str(output), "bytes": size, "left_out": inputs.tally["unsegmented"], "card": model.card})
        return
    echo(str(output))
    left_out = {"lines that the teacher could not segment": inputs.tally["unsegmented"]} if text else {}
    table("trained on", {"sentences": model.card.sentences, "characters": model.card.characters} | left_out)
    table("model", {"bytes": size})
    next_steps(shell_command("segmenter", "evaluate", "GOLD", "--using", "pointwise", "--set", f"model={output}"))


def _config(options: dict[str, object]) -> TrainingConfig:
    """Return the training options.

    Raises:
        ConfigError: one is out of its range.
    """
    from jprep.config import parse_config
    from jprep.corpus.segmenters.pointwise.training.trainer import TrainingConfig
    from jprep.errors import ConfigError

    sizes, rate = str(options.pop("sizes")), options.pop("learning_rate")
    pairs = [each.partition("=") for each in sizes.split(",") if each]
    if any(name not in _SIZES or not bits.isdecimal() for name, _, bits in pairs):
        raise ConfigError(f"cannot read {sizes!r}", where="--sizes", fix="e.g. --sizes triples=19,quadruples=18")
    tables = {"features": {name: int(bits) for name, _, bits in pairs}, "learner": {"learning_rate": rate}}
    return parse_config(options | tables, TrainingConfig, where="`jprep segmenter train`")
