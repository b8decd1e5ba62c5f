"""Installs packages into an environment: by uv where it is on PATH, else by the environment's own pip."""

from __future__ import annotations

import shutil
import subprocess
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from jprep.errors import MachineError

_TAIL = 15  # lines of the installer's output that an error shows
_SOURCES = ("index-url", "extra-index-url", "find-links", "no-index", "constraint", "trusted-host", "cert")
"""Settings of pip's configuration that say where packages come from. uv reads none of them."""

Say = Callable[[str], None]


def install_packages(python: Path, wanted: Sequence[str], options: Sequence[str], say: Say) -> None:
    """Install packages.

    uv is much faster. pip is used instead where the user gives options of pip's or pip's configuration names package
    sources, e.g. a company's index, and where uv fails.

    Args:
        python: the environment's interpreter.
        wanted: requirements and options that both programs have.
        options: options of pip's, from the user.
        say: called with each line that the program prints.

    Raises:
        MachineError: pip fails; with the end of its output.
    """
    if uv := _uv(python, options, say):
        if not _failed([uv, "pip", "install", "--python", str(python), *wanted], say):
            return
        say("uv could not install it: trying pip")
    pip = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    if output := _failed([*pip, *options, *wanted], say):
        what = f"pip could not install it:\n{output}"
        fix = "fix what pip reports, then run the same command again"
        raise MachineError(what, where=str(python.parents[1]), fix=fix)


def _uv(python: Path, options: Sequence[str], say: Say) -> str | None:
    """Return uv's path, or None where it is not there or pip has to be used."""
    uv = shutil.which("uv")
    if not uv or options:
        return None
    if sources := pip_sources(python):
        say(f"using pip, because its configuration has {', '.join(sources)}")
        return None
    return uv


def pip_sources(python: Path) -> list[str]:
    """Return the settings of pip's configuration files and environment variables that say where packages come from."""
    command = [str(python), "-m", "pip", "config", "list"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace")
    named = {line.partition("=")[0].rpartition(".")[2].strip() for line in done.stdout.splitlines() if "=" in line}
    return [name for name in _SOURCES if name in named]


def _failed(command: Sequence[str], say: Say) -> str:
    """Run a program; return the end of its output if it fails, else ""."""
    program = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )
    last: deque[str] = deque(maxlen=_TAIL)
    with program:
        for line in program.stdout or ():
            last.append(line)
            say(line.rstrip())
    return "".join(last).strip() or f"exit code {program.returncode}" if program.returncode else ""
