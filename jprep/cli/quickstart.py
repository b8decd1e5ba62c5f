"""`jprep quickstart`."""

from __future__ import annotations

import glob
import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from jprep.corpus.corpus import Corpus
    from jprep.corpus.recipe import Recipe


@click.command()
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("work/quickstart"), show_default=True)
def quickstart(output: Path) -> None:
    """Run the main job on the embedded sample, and show what came out."""
    from jprep.cli.corpus.stats import show
    from jprep.cli.progress import bar
    from jprep.corpus.corpus import Corpus
    from jprep.corpus.recipe import load_recipe
    from jprep.samples import CRAWL, DUMP, write

    inputs = output / "inputs"
    paths = [json.dumps([glob.escape(str(inputs / name))], ensure_ascii=False) for name in (DUMP, CRAWL)]
    recipe = load_recipe(write(inputs), [f"corpus.sources.{n}.paths={path}" for n, path in enumerate(paths)])
    with bar() as progress:
        corpus = Corpus.build(recipe, output / "corpus", progress=progress)
    click.echo("a sample dump and a sample crawl became this corpus; its first document, a sentence a line:\n")
    corpus.export(sys.stdout, "text", limit=1)
    click.echo("the same as words:\n")
    corpus.export(sys.stdout, "words", limit=1)
    show(corpus.manifest, corpus.folder, as_json=False)
    _tokenizer(recipe, corpus, output / "tokenizer")
    folder = shlex.quote(str(corpus.folder))
    click.echo(f"\ngo on with:  jprep corpus export {folder}    jprep corpus why {folder} TITLE")


def _tokenizer(recipe: Recipe, corpus: Corpus, folder: Path) -> None:
    """Train the recipe's tokenizer, and show a sentence's tokens."""
    from jprep import load_tokenizer
    from jprep.cli.progress import bar
    from jprep.cli.tokenizer.train import show
    from jprep.corpus.corpus import Silent
    from jprep.engine.local import Local
    from jprep.tokenizer.material import OfCorpus
    from jprep.tokenizer.spec import tokenizer_config
    from jprep.tokenizer.train import train

    config = tokenizer_config(recipe.tokenizer, recipe.name)
    with bar() as progress:
        card = train(OfCorpus(corpus), config, folder, Local(), progress or Silent())
    click.echo("\nthe corpus became this tokenizer:\n")
    show(card, folder, as_json=False)
    tokenizer = load_tokenizer(folder)
    sentence = next(iter(corpus)).text.partition("。")[0] + "。"
    pieces = " | ".join(tokenizer.piece_of(each) for each in tokenizer.encode(sentence))
    click.echo(f"\n  {sentence}\n  {pieces}\n")
