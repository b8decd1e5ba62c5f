"""`jprep doctor`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from jprep.cli.common.options import AS_JSON
from jprep.cli.common.output import echo, echo_json
from jprep.cli.common.shell_command import make_runnable
from jprep.cli.completion.candidates import BACKEND_NAME

if TYPE_CHECKING:
    from jprep.doctor import CheckGroup

_MARKS = {"ok": " ", "note": "-", "error": "!"}
_ENVIRONMENT = 3


@click.command()
@click.option("--backend", metavar="NAME", type=BACKEND_NAME, help="Check only what this backend needs.")
@click.option("--set", "overrides", multiple=True, metavar="KEY=VALUE", help="An option of the backend.")
@AS_JSON
def doctor(backend: str | None, overrides: tuple[str, ...], as_json: bool) -> int:
    """Check this machine: Python, memory, disk, accelerators, segmenters, executors, plugins, backends; suggest fixes.

    Notes are marked with `-`. Problems are marked with `!`, and make the exit code 3.

    \b
    Example:
      jprep doctor
      jprep doctor --backend torch --set device=cuda
    """
    from jprep.doctor import examine, examine_backend

    if overrides and not backend:
        raise click.UsageError("--set is an option of --backend")
    sections = examine_backend(backend, overrides) if backend else examine()
    _print_json(sections) if as_json else _print(sections)
    broken = any(finding.level == "error" for section in sections for finding in section.findings)
    return _ENVIRONMENT if broken else 0


def _print(sections: list[CheckGroup]) -> None:
    for section in sections:
        echo(section.title)
        for finding in section.findings:
            fix = f"  →  {_line(make_runnable(finding.fix))}" if finding.fix else ""
            echo(f"{_MARKS[finding.level]} {_line(finding.what)}{fix}")
    if meanings := _meanings(finding.level for section in sections for finding in section.findings):
        echo(meanings)


def _meanings(levels: Iterable[str]) -> str:
    """Return what the printed marks mean; "" if there are none."""
    printed, meanings = set(levels), {"note": "a note, nothing is broken", "error": "a problem"}
    explained = [f"{_MARKS[level]} {meaning}" for level, meaning in meanings.items() if level in printed]
    return f"marks: {'; '.join(explained)}" if explained else ""


def _line(text: str) -> str:
    return " ".join(text.split())


def _print_json(sections: list[CheckGroup]) -> None:
    import msgspec

    found = [
        {"about": section.title} | msgspec.structs.asdict(finding)
        for section in sections
        for finding in section.findings
    ]
    echo_json(found)
