"""`jprep backends new`."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from jprep.cli.common.output import echo
from jprep.plurals import counted


@click.command()
@click.argument("name")
@click.option(
    "-o", "--output", "folder", type=click.Path(path_type=Path), metavar="DIR",
    help="Where to write the package.  [default: jprep-NAME]",
)  # fmt: skip
def new(name: str, folder: Path | None) -> None:
    """Write the package of a new backend, to be adapted to a framework.

    As written, it trains a small model in numpy and passes the backend suite, except for the golden curves. The command
    prints what is left to do.

    \b
    Example:
      jprep backends new my-framework
      jprep backends new my-framework -o ~/src/jprep-my-framework
    """
    from jprep.train.scaffold.backend_package import write_backend_package

    package = write_backend_package(name, folder or Path(f"jprep-{name}"))
    echo(f"Wrote {counted(len(package.files), 'file')} to {package.folder}. Install and test them:")
    echo(f"  pip install -e {shlex.quote(f'{package.folder}[test]')}")
    echo(f"  python -m pytest {shlex.quote(str(package.folder))}")
    echo("What is left to do:")
    for number, step in enumerate(package.remaining_steps, 1):
        echo(f"  {number}. {step}")
