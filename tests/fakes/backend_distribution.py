"""A backend of the tests as a distribution that processes find."""

from __future__ import annotations

import os

from tests.conftest import ROOT, Distribution

PLUGIN = """from jprep.plugins import hookimpl
@hookimpl
def jprep_backends():
    return {{{name!r}: {light!r}}}
"""


def add_backend(distribution: Distribution, name: str, light: str, heavy: str, worker: str) -> dict[str, str]:
    """Add a backend to a distribution: its name, its light half as `module:Class`, its heavy half's package and worker.

    The variables that a process needs to find it come back.
    """
    distribution.add(f"jprep_{name}", PLUGIN.format(name=name, light=light))
    package = distribution.folder / heavy
    package.mkdir()
    package.joinpath("__init__.py").touch()
    package.joinpath("worker.py").write_text(worker)
    path = os.pathsep.join([distribution.env["PYTHONPATH"], str(ROOT)])
    return {"PYTHONPATH": path, "JPREP_BACKENDS": str(distribution.folder / "environments")}
