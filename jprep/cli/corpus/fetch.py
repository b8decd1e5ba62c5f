"""`jprep corpus fetch`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import OVERRIDES, RECIPE
from jprep.cli.common.output import echo
from jprep.cli.common.output_path import OUTPUT_PATH
from jprep.cli.corpus.download_progress import DownloadProgress


@click.command()
@RECIPE
@OVERRIDES
@click.option("--folder", type=OUTPUT_PATH, default=Path("downloads"), show_default=True, help="Download directory.")
def fetch(recipe: Path, overrides: tuple[str, ...], folder: Path) -> None:
    """Download the input files of a RECIPE, resume interrupted downloads, and verify checksums.

    A file is compared with the mirror's checksum file if there is one; otherwise its hash is recorded on the first
    download and compared on later ones.

    \b
    Example:
      jprep corpus fetch jawiki --folder downloads
    """
    from jprep.corpus.download.fetch import fetch as fetch_files
    from jprep.errors import ConfigError
    from jprep.pipeline.recipe import load_recipe

    files = [file for source in load_recipe(recipe, overrides).corpus.sources for file in source.files]
    if not files:
        fix = "name them in a source's `files`; docs/recipes.md has an example"
        raise ConfigError("the recipe names no files to download", where=str(recipe), fix=fix)
    for fetched in fetch_files(files, folder, progress=DownloadProgress()):
        checked = f"matches {fetched.checksums}" if fetched.checksums else "hash recorded"
        echo(f"{folder / fetched.name}  {fetched.size:,} bytes  sha256 {fetched.sha256}  {checked}")
