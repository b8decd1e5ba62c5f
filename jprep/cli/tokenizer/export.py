"""`jprep tokenizer export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.stats import FOLDER


@click.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["fairseq", "bert", "gpt2", "sentencepiece"]), required=True)
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="The folder to write to.")
def export(folder: Path, form: str, output: Path) -> None:
    """Write a tokenizer's vocabulary as other programs want it.

    \b
    fairseq        dict.txt
    bert           vocab.txt and tokenizer_config.json (wordpiece, boundaries = "hard")
    gpt2           vocab.json and merges.txt (byte-bpe)
    sentencepiece  spm.model and spm.vocab (bpe, unigram)
    """
    from jprep.tokenizer.export import export_tokenizer as write

    for path in write(folder, form, output):
        echo(str(path))
