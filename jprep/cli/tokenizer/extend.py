"""`jprep tokenizer extend`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo, hint
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.common.remote_output import FINISHED_OUTPUT
from jprep.plurals import counted


@click.command()
@click.argument("folder", metavar="DIR|NAME", type=FINISHED_OUTPUT)
@click.option("--add", "tokens", multiple=True, metavar="TOKEN", help="A token to add.")
@click.option("--tokens", "file", type=click.Path(path_type=Path), help="A file with a token in each line.")
@click.option("-o", "--output", type=OUTPUT_PATH, required=True, help="Output directory.")
def extend(folder: Path, tokens: tuple[str, ...], file: Path | None, output: Path) -> None:
    """Add tokens to a tokenizer from elsewhere: a directory with a tokenizer.json, or a name on the Hub.

    To train a model with it, set train.model.vocabulary = "transfer": the new rows of its embeddings begin as means of
    those of the tokens' old pieces.

    To learn new pieces from text instead, use `jprep tokenizer train --extends`.

    \b
    Example:
      jprep tokenizer extend org/bert --add 令和 --add 琵琶湖 -o bert-tokenizer
      jprep tokenizer extend bert --tokens terms.txt -o bert-tokenizer
    """
    from jprep.errors import ConfigError
    from jprep.tokenizer.external.extension import extend_tokenizer

    if not tokens and not file:
        raise click.UsageError("give --add TOKEN or --tokens FILE")
    listed = list(tokens)
    if file:
        try:
            lines = file.read_text(encoding="utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            fix = "give a text file in UTF-8"
            raise ConfigError(f"cannot read the tokens: {error}", where=str(file), fix=fix) from error
        listed += [line.strip() for line in lines if line.strip()]
    added = extend_tokenizer(folder, listed, output)
    echo(f"{output}: {counted(len(added), 'token')} added")
    hint(f"{len(listed) - len(added):,} were there already")
