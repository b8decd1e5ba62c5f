"""Writes `docs/cli.md` from the command line itself: `python docs/make_cli.py`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import click

from jprep.cli.main import cli

PAGE = Path(__file__).with_name("cli.md")
HEAD = """# The command line

Made from the commands by `python docs/make_cli.py`; `jprep COMMAND --help` says the same.

Results go to standard output, progress and errors to standard error. Progress is a bar on a terminal; elsewhere a
line every 30 seconds, and during training one at each start, validation and checkpoint. `--quiet` prints only results,
warnings and errors.

Control characters, direction marks and the like in text from outside (names, titles, texts) are shown as escapes
such as `\\x1b` and `\\u202e`. Products such as exported text are raw in a pipe or a file, and escaped on a terminal.

Commands in messages are printed as they can be typed: with the program's path where `jprep` is not on PATH.

Exit codes: 0 done, 1 failed, 2 usage or config, 3 environment, 4 input worse than its budget, 130 interrupted.
"""


def render() -> str:
    """The whole page."""
    return HEAD + "".join(_sections(cli, "jprep", None))


def _sections(command: click.Command, name: str, parent: click.Context | None) -> Iterator[str]:
    context = click.Context(command, info_name=name.rpartition(" ")[2], parent=parent, **cli.context_settings)
    context.terminal_width = 100
    yield f"\n## `{name}`\n\n```text\n{command.get_help(context)}\n```\n"
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            yield from _sections(command.commands[child], f"{name} {child}", context)


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
