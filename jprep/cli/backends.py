"""`jprep backends`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from jprep.cli.corpus.stats import AS_JSON
from jprep.cli.output import echo, echo_json
from jprep.cli.program import runnable


@click.group()
def backends() -> None:
    """List backends, which train models, and make the environments that they run in."""


@backends.command("list")
@AS_JSON
def list_backends(as_json: bool) -> None:
    """List backends, where each one runs, and what it finds on this machine."""
    from jprep.plugins import plugins
    from jprep.train.packages import install_command

    found = [_about(name) for name in plugins().names("backend")]
    if as_json:
        echo_json(found)
        return
    for about in found:
        _show(about)
    if not found:
        echo(runnable(f"no backend is installed; this installs torch's:  {install_command('torch')}"))


@backends.command()
@click.argument("name")
@click.argument("options", nargs=-1, metavar="[-- PIP_OPTION...]")
@click.option(
    "--constraint", "constraints", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="Versions to keep to.",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Make the environment again.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="A setting of the backend's own: some devices have an environment of their own.",
)  # fmt: skip
def install(
    name: str, options: tuple[str, ...], constraints: tuple[Path, ...], restart: bool, overrides: tuple[str, ...]
) -> None:
    """Make a backend's environment: jprep, the backend, and the framework that it needs.

    An environment that is already as asked for stays as it is. uv installs where it is on PATH; pip where options of
    pip's follow --, where pip's configuration names package sources, and where uv fails.

    \b
    jprep backends install torch
    jprep backends install torch --constraint pins.txt -- --no-index --find-links wheels
    jprep backends install fairseq-xla --set device=xla
    """
    from jprep.cli.progress import status
    from jprep.train.backend import home_of
    from jprep.train.environments import bare_requires, own_distributions, place_of, requires
    from jprep.train.environments import install as make
    from jprep.train.launching import half_and_options

    half, chosen = half_and_options(name, overrides)
    home = home_of(half, chosen)
    lines: list[str] = []
    with status(f"installing {name}") as show:

        def say(line: str) -> None:
            lines.append(line)
            show(line)

        make(
            home.name,
            requires(home),
            own=own_distributions(home.distribution),
            bare=bare_requires(home),
            constraints=constraints,
            options=options,
            restart=restart,
            say=say,
        )
    echo(f"{name} is {'installed' if lines else 'installed already'}: {place_of(home.name)}")
    _show(_about(name, overrides))


def _about(name: str, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """A backend, where it runs, and what it finds."""
    import importlib.metadata

    import msgspec

    from jprep.errors import JprepError
    from jprep.train.backend import Finding
    from jprep.train.environments import python_of
    from jprep.train.launching import half_and_options

    about: dict[str, Any] = {"name": name, "version": "", "python": None, "findings": []}
    findings: list[Finding] = []
    try:
        half, options = half_and_options(name, overrides)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            about["version"] = f"{half.distribution} {importlib.metadata.version(half.distribution)}"
        about["python"] = str(python_of(half, options))
        findings = half.check(options)
    except JprepError as error:
        findings = [Finding(error.what, "error", error.fix)]
    return about | {"findings": msgspec.to_builtins(findings)}


def _show(about: dict[str, Any]) -> None:
    import msgspec

    from jprep.cli.train_plan import show_findings
    from jprep.train.backend import Finding

    missing = any("not installed" in finding["what"] for finding in about["findings"])
    where = about["python"] or ("not installed" if missing else "cannot run here")
    where = "this environment" if where == sys.executable else where
    echo(f"{about['name']}  {about['version']}  {where}")
    show_findings(msgspec.convert(about["findings"], list[Finding]))
