"""`jprep quickstart`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import click


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
    at = [f"corpus.sources.{number}.paths=['{inputs / name}']" for number, name in enumerate((DUMP, CRAWL))]
    recipe = load_recipe(write(inputs), at)
    with bar() as progress:
        corpus = Corpus.build(recipe, output / "corpus", progress=progress)
    show(corpus.manifest, corpus.folder, as_json=False)
    click.echo("\nthe first document, as words:\n")
    corpus.export(sys.stdout, "words", limit=1)
    folder = shlex.quote(str(corpus.folder))
    click.echo(f"go on with:  jprep corpus export {folder}    jprep corpus why {folder} TITLE")
