"""Install a test backend as a distribution, so that processes find it."""

from __future__ import annotations

import os

from tests.conftest import ROOT, Distribution

PLUGIN = """from jprep.plugins import hookimpl
@hookimpl
def jprep_backends():
    return {{{name!r}: {planner!r}}}
"""


def add_backend(distribution: Distribution, name: str, planner: str, package: str, worker: str) -> dict[str, str]:
    """Add a backend to a distribution.

    Args:
        distribution: the distribution.
        name: the backend's name.
        planner: its planner as `module:Class`.
        package: the package of its worker.
        worker: the source of the worker's module.

    Returns:
        The environment variables with which a process finds it.
    """
    distribution.add(f"jprep_{name}", PLUGIN.format(name=name, planner=planner))
    folder = distribution.folder / package
    folder.mkdir()
    folder.joinpath("__init__.py").touch()
    folder.joinpath("worker.py").write_text(worker)
    path = os.pathsep.join([distribution.env["PYTHONPATH"], str(ROOT)])
    return {"PYTHONPATH": path, "JPREP_BACKENDS": str(distribution.folder / "environments")}
