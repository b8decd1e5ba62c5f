"""`jprep plugins`."""

from __future__ import annotations

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json


@click.command("plugins")
@AS_JSON
def list_plugins(as_json: bool) -> None:
    """List plugins, the steps that they register, and errors of those that failed to load.

    \b
    Example:
      jprep plugins
    """
    from jprep.plugins import plugins

    found = plugins().found
    if as_json:
        echo_json(found)
        return
    for plugin in found:
        state = f"FAILED: {plugin.error}" if plugin.error else ", ".join(plugin.steps)
        echo(f"{plugin.name} ({plugin.version}, {plugin.value})\n  {state}")
