"""`jprep plugins`."""

from __future__ import annotations

import click


@click.command("plugins")
@click.option("--json", "as_json", is_flag=True, help="For machines.")
def list_plugins(as_json: bool) -> None:
    """List plugins, what each one brings, and why one could not be loaded."""
    import msgspec

    from jprep.plugins import plugins

    found = plugins().found
    if as_json:
        click.echo(msgspec.json.encode(found).decode())
        return
    for plugin in found:
        state = f"FAILED: {plugin.error}" if plugin.error else ", ".join(plugin.steps)
        click.echo(f"{plugin.name} ({plugin.version}, {plugin.value})\n  {state}")
