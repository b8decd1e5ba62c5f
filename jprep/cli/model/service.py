"""`jprep service`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import click

from jprep.cli.common.output import echo
from jprep.cli.completion.candidates import PATTERN

_OWN_VARIABLES = ("JPREP_BACKENDS", "JPREP_CACHE")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--cron", is_flag=True, help="Print a crontab line with flock instead of a systemd unit.")
@click.option("--user", metavar="NAME", help="User to run as, with systemd. Default: you.")
@click.option("--env", "variables", multiple=True, metavar="NAME", help="Pass this variable with its present value.")
@click.option(
    "--env-file", type=PATTERN, metavar="FILE", help="File with more variables (NAME=VALUE lines), such as tokens."
)
def service(run: Path, cron: bool, user: str | None, variables: tuple[str, ...], env_file: str | None) -> None:
    """Print a systemd unit that resumes a run at boot and after a failure.

    It runs the command that last started the run directory RUN, in the same working directory. JPREP_BACKENDS and
    JPREP_CACHE are passed if they are set. Exit codes 2, 3 and 4, which a restart does not help, end it.

    \b
    Example:
      jprep service work/jawiki/runs/torch > jprep.service
    (crontab -l; jprep service work/jawiki/runs/torch --cron) | crontab -
    """
    from jprep.train.launcher.service import Service, cron_line, systemd_unit
    from jprep.train.launcher.start_command import read_command
    from jprep.train.run.directory import read_job

    if cron and user:
        raise click.UsageError("--user is for systemd: install the crontab of that user")
    command, name = read_command(run), read_job(run).name
    found = Service(
        name=name,
        run=run.resolve(),
        folder=Path(command.folder),
        command=(_program(), *command.words),
        environment=_environment(variables),
        environment_file=str(Path(env_file).resolve()) if env_file else "",
        user=user or ("" if cron else _user()),
    )
    echo((cron_line(found) if cron else systemd_unit(found)).rstrip("\n"))


def _program() -> str:
    """Return the absolute path of this program."""
    called = sys.argv[0]
    found = called if "/" in called else shutil.which("jprep") or str(Path(sys.executable).with_name("jprep"))
    return str(Path(found).resolve())


def _environment(names: tuple[str, ...]) -> dict[str, str]:
    """Return the variables to pass: jprep's own folders, and those that were asked for.

    Raises:
        click.BadParameter: one is not set.
    """
    found = {name: str(Path(os.environ[name]).resolve()) for name in _OWN_VARIABLES if os.environ.get(name)}
    for name in names:
        if name not in os.environ or "=" in name or not name:
            raise click.BadParameter(f"{name!r} is not set", param_hint="--env")
        found.setdefault(name, os.environ[name])
    return found


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a user without an account, as in containers
        return str(os.getuid())
