"""Options that the others make pointless are refused, so that nobody relies on them."""

from __future__ import annotations

import click
from click.core import ParameterSource


def refuse_unused(reason: str, *names: str) -> None:
    """Raise UsageError for the first of some options that was given on the command line.

    Args:
        reason: why they have no effect, e.g. "--temperature is 0".
        names: the parameters' names, e.g. `top_k`.
    """
    context = click.get_current_context()
    spelt = {param.name: max(param.opts, key=len) for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{spelt[name]} has no effect here: {reason}")
