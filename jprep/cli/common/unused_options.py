"""Refuse options that have no effect in combination with others."""

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
    spelled = {param.name: max(param.opts, key=len) for param in context.command.params}
    for name in names:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{spelled[name]} has no effect: {reason}")
