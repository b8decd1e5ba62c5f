"""`jprep corpus templates`."""

from __future__ import annotations

from pathlib import Path

import click

from jprep.cli.common.options import AS_JSON, FILE
from jprep.cli.common.output import echo, echo_json, table
from jprep.cli.common.output_path import OUTPUT_PATH

_COUNTS = {"pages": "templates", "redirects": "redirects", "too_large": "left out: longer than 2,097,152 characters"}


@click.command()
@click.argument("dumps", nargs=-1, required=True, type=FILE, metavar="DUMP...")
@click.option("-o", "--output", required=True, type=OUTPUT_PATH, help="Output file.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@AS_JSON
def templates(dumps: tuple[Path, ...], output: Path, force: bool, as_json: bool) -> None:
    """Collect the template pages of a MediaWiki dump.

    Name the file in a recipe, and templates that jprep's tables do not have are expanded from it:

    \b
      reader = { use = "wikipedia", wikitext = { template_pages = "{recipe}/templates.sqlite" } }

    \b
    Example:
      jprep corpus templates jawiki-latest-pages-articles.xml.bz2 -o templates.sqlite
    """
    from jprep.cli.common.progress import show_status
    from jprep.corpus.readers.mediawiki.template_pages import collect_templates

    with show_status("collecting templates") as report:
        found = collect_templates(dumps, output, force=force, report=report)
    counts = {name: found[name] for name in _COUNTS}
    size = output.stat().st_size
    if as_json:
        echo_json({"file": str(output), "bytes": size} | counts)
        return
    echo(str(output))
    table("template pages", {_COUNTS[name]: count for name, count in counts.items()} | {"bytes": size})
