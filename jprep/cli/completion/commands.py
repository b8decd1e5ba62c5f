"""`jprep completion install`, `show` and `remove`."""

from __future__ import annotations

import click

from jprep.cli.common.output import content_stream, echo, hint

SHELLS = ("bash", "zsh", "fish")

_SHELL = click.argument("shell", required=False, type=click.Choice(SHELLS))


@click.command()
@_SHELL
def install(shell: str | None) -> None:
    """Install completion for a SHELL, by default the one that jprep runs in. Running it again changes nothing.

    The script goes where the shell looks for those of a user. Where the shell needs to be told, a marked block is added
    to its start-up file (~/.zshrc; ~/.bashrc unless bash-completion is installed).

    \b
    Example:
      jprep completion install
      jprep completion install zsh
    """
    from jprep.cli.completion.installation import Installation

    chosen = shell or _detect()
    installation = Installation(chosen)
    changes = installation.install()
    for change in changes:
        echo(change)
    echo(f"{chosen}: {'installed' if changes else 'already installed, nothing to do'}")
    hint(f"\nnext: open a new {chosen}, or run\n  {installation.reload_command}")


@click.command()
@_SHELL
def show(shell: str | None) -> None:
    """Print the completion script of a SHELL, to install it by hand.

    \b
    Example:
      jprep completion show fish > jprep.fish
    """
    from jprep.cli.completion.installation import completion_script

    content_stream().write(completion_script(shell or _detect()))


@click.command()
@_SHELL
def remove(shell: str | None) -> None:
    """Remove what `jprep completion install` has written, for one SHELL or for all.

    \b
    Example:
      jprep completion remove
    """
    from jprep.cli.completion.installation import Installation

    changes = [change for name in ([shell] if shell else SHELLS) for change in Installation(name).remove()]
    for change in changes:
        echo(change)
    if not changes:
        echo("nothing is installed")


def _detect() -> str:
    """Return the shell that jprep runs in.

    Raises:
        click.UsageError: it is none of `SHELLS`.
    """
    from jprep.cli.completion.installation import running_shell

    if found := running_shell(SHELLS):
        return found
    raise click.UsageError(f"cannot tell which shell this is; name it: {', '.join(SHELLS)}")
