"""`jprep backends`."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.shell_command import make_runnable
from jprep.cli.completion.candidates import BACKEND_NAME
from jprep.cli.environment.new_backend import new
from jprep.typed_json import convert


@click.group()
def backends() -> None:
    """List the backends that train models, and install their environments."""


backends.add_command(new)


@backends.command("list")
@AS_JSON
def list_backends(as_json: bool) -> None:
    """List backends with their versions, environments and checks of this machine.

    \b
    Example:
      jprep backends list
    """
    from jprep.plugins import plugins
    from jprep.train.backend_loading import install_command

    found = [_about(name) for name in plugins().names("backend")]
    if as_json:
        echo_json(found)
        return
    for about in found:
        _show(about)
    if not found:
        echo(make_runnable(f"no backend is installed; to install torch:  {install_command('torch')}"))


@backends.command()
@click.argument("name", type=BACKEND_NAME)
@click.argument("options", nargs=-1, metavar="[-- PIP_OPTION...]")
@click.option(
    "--constraint", "constraints", multiple=True, type=click.Path(path_type=Path), metavar="FILE",
    help="A constraints file, as for pip.",
)  # fmt: skip
@click.option("--restart", is_flag=True, help="Delete the environment and create it again.")
@click.option(
    "--set", "overrides", multiple=True, metavar="OPTION=VALUE",
    help="An option of the backend, e.g. device=xla: some devices need another environment.",
)  # fmt: skip
def install(
    name: str, options: tuple[str, ...], constraints: tuple[Path, ...], restart: bool, overrides: tuple[str, ...]
) -> None:
    """Create the environment of a backend: jprep, the backend, and its framework.

    An environment that matches the request is left as it is. Packages are installed with uv if it is on PATH, and with
    pip if pip options follow --, if pip's configuration names package indexes, or if uv fails.

    \b
    Example:
      jprep backends install torch
      jprep backends install torch --constraint pins.txt -- --no-index --find-links wheels
      jprep backends install fairseq-xla --set device=xla
    """
    from jprep.cli.common.progress import show_status
    from jprep.train.backend_loading import load_backend_and_options
    from jprep.train.launcher.environments import (
        environment_path,
        local_distributions,
        no_deps_requirements,
        worker_requirements,
    )
    from jprep.train.launcher.environments import install_environment as make

    backend, chosen = load_backend_and_options(name, overrides)
    environment = backend.environment(chosen)
    lines: list[str] = []
    with show_status(f"installing {name}") as show:

        def say(line: str) -> None:
            lines.append(line)
            show(line)

        make(
            environment.name,
            worker_requirements(environment),
            own=local_distributions(environment.distribution),
            bare=no_deps_requirements(environment),
            constraints=constraints,
            options=options,
            restart=restart,
            say=say,
        )
    echo(f"{name} is {'installed' if lines else 'installed already'}: {environment_path(environment.name)}")
    _show(_about(name, overrides))


def _about(name: str, overrides: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a backend's version, Python and findings."""
    import importlib.metadata

    import msgspec

    from jprep.errors import JprepError
    from jprep.train.backend import Finding
    from jprep.train.backend_loading import load_backend_and_options
    from jprep.train.launcher.environments import worker_python

    about: dict[str, Any] = {"name": name, "version": "", "python": None, "findings": []}
    findings: list[Finding] = []
    try:
        backend, options = load_backend_and_options(name, overrides)
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            about["version"] = f"{backend.distribution} {importlib.metadata.version(backend.distribution)}"
        about["python"] = str(worker_python(backend, options))
        findings = backend.check(options)
    except JprepError as error:
        findings = [Finding(error.what, "error", error.fix)]
    return about | {"findings": msgspec.to_builtins(findings)}


def _show(about: dict[str, Any]) -> None:

    from jprep.cli.model.training_plan import show_findings
    from jprep.train.backend import Finding

    missing = any("not installed" in finding["what"] for finding in about["findings"])
    where = about["python"] or ("not installed" if missing else "cannot run here")
    where = "this environment" if where == sys.executable else where
    echo(f"{about['name']}  {about['version']}  {where}")
    show_findings(convert(about["findings"], list[Finding]))
