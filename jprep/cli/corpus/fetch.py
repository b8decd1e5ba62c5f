"""`jprep corpus fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.output import echo, live, redraw
from jprep.cli.common.output_path import OUTPUT_PATH


@click.command()
@click.argument("recipe", type=click.Path(path_type=Path))
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="Change a key of the recipe.")
@click.option("--folder", type=OUTPUT_PATH, default=Path("downloads"), show_default=True)
def fetch(recipe: Path, overrides: tuple[str, ...], folder: Path) -> None:
    """Download what a RECIPE reads; resume a broken download; check what came.

    A file is held against the mirror's checksum file where there is one, else its hash is recorded on the first fetch.
    """
    from jprep.corpus.download.fetch import fetch as fetch_files
    from jprep.errors import ConfigError
    from jprep.pipeline.recipe import load_recipe

    files = [file for source in load_recipe(recipe, overrides).corpus.sources for file in source.files]
    if not files:
        fix = "a source names them in its `files`; docs/recipes.md has an example"
        raise ConfigError("the recipe names no files to download", where=str(recipe), fix=fix)
    for fetched in fetch_files(files, folder, progress=show if live() else None):
        checked = f"agrees with {fetched.checksums}" if fetched.checksums else "hash recorded"
        echo(f"{folder / fetched.name}  {fetched.size:,} bytes  sha256 {fetched.sha256}  {checked}")


def show(name: str, done: int, total: int) -> None:
    """Show how far a download is."""
    share = f" of {total / 1e6:,.0f} MB, {done / total:.0%}" if total > 0 else " MB"
    redraw(f"{name}  {done / 1e6:,.0f}{share}", done=done == total)
