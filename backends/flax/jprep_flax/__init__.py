"""jprep's backend for JAX: models in flax.nnx. Importing this package imports no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """Return the planner by name; it is imported when the backend is used."""
    return {"flax": "jprep_flax.backend:Flax"}
