"""Where the packages of jprep's backends come from."""

from __future__ import annotations

import shlex
from pathlib import Path

FIRST_PARTY_BACKENDS = ("torch", "deepspeed", "flax", "fairseq_xla")
"""Backends that are developed beside jprep: the names of their folders."""


def install_command(backend: str) -> str:
    """Return the command that installs a backend's package: from jprep's checkout if this is one, else by name."""
    name = backend.replace("-", "_")
    folder = Path(__file__).parents[3] / "backends" / name
    if name in FIRST_PARTY_BACKENDS and (folder / "pyproject.toml").exists():
        return f"pip install {shlex.quote(str(folder))}"
    return (
        f"pip install jprep-{name.replace('_', '-')}"
        if name in FIRST_PARTY_BACKENDS
        else "install the package that provides it"
    )
