"""`jprep tokenizer export`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import FOLDER
from jprep.cli.common.output import echo
from jprep.cli.common.remote_output import OUTPUT_PATH_OR_URL, Url, local_tokenizer_export, written_to


@click.command()
@FOLDER
@click.option("--format", "form", type=click.Choice(["fairseq", "bert", "gpt2", "sentencepiece"]), required=True)
@click.option("-o", "--output", type=OUTPUT_PATH_OR_URL, required=True, help="Output directory or URL.")
def export(folder: Path, form: str, output: Path | Url) -> None:
    """Write a tokenizer's vocabulary in the format of another program.

    \b
    fairseq        dict.txt
    bert           vocab.txt and tokenizer_config.json (wordpiece, boundaries = "hard" or "bert")
    gpt2           vocab.json and merges.txt (byte-bpe)
    sentencepiece  spm.model and spm.vocab (bpe, unigram)

    \b
    Example:
      jprep tokenizer export work/jawiki/tokenizer --format fairseq -o data-bin
    """
    from jprep.tokenizer.export import EXPORTED_FILES
    from jprep.tokenizer.export import export_tokenizer as write

    with local_tokenizer_export(output, EXPORTED_FILES) as out:
        paths = write(folder, form, out)
    for path in paths:
        echo(written_to(output, path, out))
