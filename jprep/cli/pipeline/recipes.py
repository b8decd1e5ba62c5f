"""`jprep recipes`."""

from __future__ import annotations

import click

from jprep.cli.common.output import echo, echo_json, next_steps
from jprep.cli.common.shell_command import shell_command
from jprep.cli.corpus.stats import AS_JSON

_FIRST = "jawiki"
"""The recipe that a newcomer should look at."""


@click.command()
@AS_JSON
def recipes(as_json: bool) -> None:
    """List the recipes that come with jprep, and where their files are.

    Copy one to change it, or change single keys with --set.
    """
    from jprep.pipeline.shipped_recipes import shipped_recipes

    found = shipped_recipes()
    if as_json:
        echo_json([{"path": str(path), "name": each.name, "about": each.description} for path, each in found.items()])
        return
    for path, each in found.items():
        echo(f"{path}\n  {each.description}")
    if found:
        first = next((path for path in found if path.stem == _FIRST), next(iter(found)))
        next_steps(shell_command("run", first, "--dry-run"))
