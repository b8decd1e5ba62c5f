"""`jprep convert`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo
from jprep.cli.common.output_path import OUTPUT_PATH

_PATH = click.Path(path_type=Path)


@click.command()
@click.argument("checkpoint", metavar="CHECKPOINT", type=_PATH)
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="Output directory.")
@click.option("--config", type=_PATH, help="bert_config.json. Default: the one beside the checkpoint.")
@click.option("--vocab", type=_PATH, help="vocab.txt. Default: the one beside the checkpoint.")
@click.option(
    "--part",
    type=click.Choice(["discriminator", "generator"]),
    help="Which ELECTRA model to convert. Default: discriminator.",
)
@click.option("--tokenizer", type=_PATH, help="The tokenizer of a fairseq checkpoint's data.")
@click.option("--dict", "dictionary", type=_PATH, help="The dict.txt of fairseq, if it is not the tokenizer's.")
def convert(
    checkpoint: Path,
    output: Path,
    config: Path | None,
    vocab: Path | None,
    part: str | None,
    tokenizer: Path | None,
    dictionary: Path | None,
) -> int:
    """Convert a checkpoint of another program to a directory in Hugging Face form, for model.init and transformers.

    CHECKPOINT is a TensorFlow 1 checkpoint of google-research/bert or google-research/electra (its prefix or its
    directory; needs the backend keras), or a .pt file of fairseq (needs the backend fairseq-xla and --tokenizer).

    \b
    Example:
      jprep convert uncased_L-12_H-768_A-12/bert_model.ckpt -o bert
      jprep convert electra_small -o generator --part generator
      jprep convert checkpoints/checkpoint_best.pt --tokenizer work/jawiki/tokenizer -o roberta
    """
    from jprep.train.exporting.conversion import convert as run

    options = {"config": config, "vocab": vocab, "part": part, "tokenizer": tokenizer, "dict": dictionary}
    code = run(checkpoint, output, options)
    if not code:
        echo(str(output))
    return code
