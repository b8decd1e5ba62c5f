"""`jprep dataset export`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jprep.cli.common.execution import limit_blas_threads, open_executor
from jprep.cli.common.options import FOLDER, WORKERS
from jprep.cli.common.output import echo, note
from jprep.cli.common.remote_output import FINISHED_OUTPUT, OUTPUT_PATH_OR_URL, Url, local_output, written_to
from jprep.cli.completion.candidates import RECIPE_PATH

if TYPE_CHECKING:
    from jprep.dataset.mix import MixConfig

FORMATS = ["fairseq", "tfrecord", "arrow", "megatron-blend"]


@click.command()
@FOLDER
@click.option("--format", "--as", "form", type=click.Choice(FORMATS), required=True)
@click.option("-o", "--output", type=OUTPUT_PATH_OR_URL, required=True, help="Output directory or URL.")
@click.option("--tokenizer", type=FINISHED_OUTPUT, help="The tokenizer (fairseq, --features). Default: ../tokenizer.")
@click.option(
    "--unit",
    type=click.Choice(["document", "paragraph", "sentence"]),
    help="fairseq: the unit of a sequence. Default: document.",
)
@click.option("--length", type=int, metavar="N", help="Tokens per row; fairseq: maximum tokens per sequence.")
@click.option("--shard-mb", type=int, metavar="N", help="Megabytes per file. Default: 100 (tfrecord), 500 (arrow).")
@click.option(
    "--features",
    type=click.Choice(["bert", "electra", "transformers"]),
    help="tfrecord: write rows for training with the features of this program.",
)
@click.option(
    "--packing",
    type=click.Choice(["stream", "complete", "line", "best_fit"]),
    help="--features: how documents become rows. Default: stream.",
)
@click.option(
    "--next-sentence", is_flag=True, default=None, help="--features: write pairs for BERT's next-sentence task."
)
@click.option(
    "--masks",
    type=click.Choice(["static", "dynamic"]),
    help="--features: write masked rows, or leave masking to the input pipeline. Default: static; electra: dynamic.",
)
@click.option("--mask-rate", type=float, metavar="SHARE", help="--features: share of masked tokens. Default: 0.15.")
@click.option("--whole-word", is_flag=True, default=None, help="--features: mask all tokens of a word together.")
@click.option(
    "--dupe-factor", type=int, metavar="N", help="--features: write each row N times, with other masks and pairs."
)
@click.option(
    "--max-predictions",
    type=int,
    metavar="N",
    help="--features bert: maximum masked tokens per row. Default: length times mask rate.",
)
@click.option("--rows-per-shard", type=int, metavar="N", help="--features: rows per file. Default: 25,600.")
@click.option("--seed", type=int, metavar="N", help="--features: seed of order, pairs and masks. Default: 1.")
@click.option("--recipe", type=RECIPE_PATH, help="megatron-blend: the recipe whose [dataset.mix] has the weights.")
@click.option("--prefix", metavar="DIR", help="megatron-blend: the directory that its lists name. Default: none.")
@WORKERS
def export(
    folder: Path,
    form: str,
    output: Path | Url,
    tokenizer: Path | None,
    recipe: Path | None,
    workers: int | None,
    **options: str | int | None,
) -> None:
    """Write a dataset in the format of another program.

    \b
    fairseq   a data-bin directory: dict.txt, train and valid as .bin and .idx
    tfrecord  shards of tf.train.Example with the feature input_ids, or with --features those of google-research/bert,
              google-research/electra, or transformers and Keras
    arrow     a dataset for datasets.load_from_disk with the column input_ids
    megatron-blend
              .bin and .idx of each source, and the lists of weights and prefixes of Megatron-LM's blended data set

    \b
    Example:
      jprep dataset export work/jawiki/dataset --format arrow -o jawiki-arrow
    """
    limit_blas_threads()
    from jprep.cli.common.unused_options import refuse_unused
    from jprep.dataset.exports import export_dataset as write
    from jprep.dataset.exports import read_export_manifest
    from jprep.dataset.exports.base import ExportOptions

    chosen = ExportOptions(**options, mix=_mix(recipe))  # type: ignore[arg-type]
    if form != "megatron-blend":
        refuse_unused("it is for --format megatron-blend", "recipe", "prefix")
    if not chosen.features:
        refuse_unused("without --features one process writes the files", "workers")
    with local_output(output, "dataset export") as out:
        with open_executor(workers if chosen.features else 1) as (executor, progress):
            paths = write(folder, tokenizer, form, out, chosen, progress, executor)
        splits = read_export_manifest(out).splits
    for path in paths:
        echo(written_to(output, path, out))
    for split in splits:
        if split.left_out:
            note(f"{split.left_out:,} tokens at the end of {split.name} do not fill a row and are left out")


def _mix(recipe: Path | None) -> MixConfig | None:
    from jprep.errors import ConfigError
    from jprep.pipeline.recipe import load_recipe

    if not recipe:
        return None
    dataset = load_recipe(recipe).dataset
    if not (dataset and dataset.mix):
        fix = "add weights = { wiki = 3, web = 1 }, or leave out --recipe to weigh sources by their tokens"
        raise ConfigError("the recipe has no [dataset.mix]", where=str(recipe), fix=fix)
    return dataset.mix
