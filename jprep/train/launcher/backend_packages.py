"""How the packages of the first-party backends are installed."""

from __future__ import annotations

import shlex
from pathlib import Path

FIRST_PARTY_BACKENDS = ("torch", "deepspeed", "flax", "fairseq_xla", "keras")
"""Backends developed in jprep's repository, by the names of their folders."""


def install_command(backend: str) -> str:
    """Return the command that installs a backend's package: from the checkout, if jprep runs from one, else by name."""
    name = backend.replace("-", "_")
    if name not in FIRST_PARTY_BACKENDS:
        return "install the package that provides it"
    folder = Path(__file__).parents[3] / "backends" / name
    if (folder / "pyproject.toml").exists():
        return f"pip install {shlex.quote(str(folder))}"
    return f"pip install jprep-{name.replace('_', '-')}"
