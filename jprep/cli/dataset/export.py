"""`jprep dataset export`."""

from __future__ import annotations

import os
from pathlib import Path

import click

from jprep.cli.common.output import echo, note
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.stats import FOLDER


@click.command()
@FOLDER
@click.option("--format", "--as", "form", type=click.Choice(["fairseq", "tfrecord", "arrow"]), required=True)
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="The folder to write to.")
@click.option("--tokenizer", type=click.Path(path_type=Path), help="fairseq: its folder; ../tokenizer by default.")
@click.option(
    "--unit",
    type=click.Choice(["document", "paragraph", "sentence"]),
    help="fairseq: what one sequence is; document by default.",
)
@click.option("--length", type=int, metavar="N", help="Rows of N tokens; fairseq: sequences of at most N.")
@click.option("--shard-mb", type=int, metavar="N", help="Megabytes of a file: tfrecord 100, arrow 500.")
def export(folder: Path, form: str, output: Path, tokenizer: Path | None, **options: str | int | None) -> None:
    """Write a dataset as other programs want it.

    \b
    fairseq   a data-bin folder: dict.txt, train and valid as .bin and .idx
    tfrecord  shards of tf.train.Example with the feature input_ids
    arrow     what datasets.load_from_disk reads, with the column input_ids
    """
    # numpy would start a thread a core for linear algebra that nothing here does.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
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
            note(f"{split.left_out:,} tokens at the end of {split.name} fill no row")
