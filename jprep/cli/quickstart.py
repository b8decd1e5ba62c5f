"""`jprep quickstart`."""

from __future__ import annotations

import glob
import json
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
    paths = [json.dumps([glob.escape(str(inputs / name))], ensure_ascii=False) for name in (DUMP, CRAWL)]
    recipe = load_recipe(write(inputs), [f"corpus.sources.{n}.paths={path}" for n, path in enumerate(paths)])
    with bar() as progress:
        corpus = Corpus.build(recipe, output / "corpus", progress=progress)
    click.echo("a sample dump and a sample crawl became this corpus; its first document, a sentence a line:\n")
    corpus.export(sys.stdout, "text", limit=1)
    click.echo("the same as words:\n")
    corpus.export(sys.stdout, "words", limit=1)
    show(corpus.manifest, corpus.folder, as_json=False)
    folder = shlex.quote(str(corpus.folder))
    click.echo(f"\ngo on with:  jprep corpus export {folder}    jprep corpus why {folder} TITLE")
