"""Checks of what executors need."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from jprep.train.backend import Finding


def check_executors() -> list[Finding]:
    """Return whether Ray is installed, without importing it."""
    try:
        return [Finding(f"ray: Ray {version('ray')}")]
    except PackageNotFoundError:
        return [Finding("ray: Ray is not installed (only for several machines)", "note", "pip install 'jprep[ray]'")]
