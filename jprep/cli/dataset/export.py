"""`jprep dataset export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.execution import limit_blas_threads
from jprep.cli.common.options import FOLDER
from jprep.cli.common.output import echo, note
from jprep.cli.common.output_path import OUTPUT_PATH


@click.command()
@FOLDER
@click.option("--format", "--as", "form", type=click.Choice(["fairseq", "tfrecord", "arrow"]), required=True)
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="Output directory.")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="fairseq: the tokenizer. Default: ../tokenizer.")
@click.option(
    "--unit",
    type=click.Choice(["document", "paragraph", "sentence"]),
    help="fairseq: the unit of a sequence. Default: document.",
)
@click.option("--length", type=int, metavar="N", help="Tokens per row; fairseq: maximum tokens per sequence.")
@click.option("--shard-mb", type=int, metavar="N", help="Megabytes per file. Default: 100 (tfrecord), 500 (arrow).")
def export(folder: Path, form: str, output: Path, tokenizer: Path | None, **options: str | int | None) -> None:
    """Write a dataset in the format of another program.

    \b
    fairseq   a data-bin directory: dict.txt, train and valid as .bin and .idx
    tfrecord  shards of tf.train.Example with the feature input_ids
    arrow     a dataset for datasets.load_from_disk with the column input_ids
    """
    limit_blas_threads()
    from jprep.cli.common.progress import show_progress
    from jprep.dataset.exports import export_dataset as write
    from jprep.dataset.exports import read_export_manifest
    from jprep.dataset.exports.base import ExportOptions

    with show_progress() as progress:
        paths = write(folder, tokenizer, form, output, ExportOptions(**options), progress)  # type: ignore[arg-type]
    for path in paths:
        echo(str(path))
    for split in read_export_manifest(output).splits:
        if split.left_out:
            note(f"{split.left_out:,} tokens at the end of {split.name} do not fill a row and are left out")
