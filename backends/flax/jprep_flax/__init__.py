"""jprep's backend for JAX: models in flax.nnx. Importing this package loads no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """The light half, imported when it is asked for."""
    return {"flax": "jprep_flax.backend:Flax"}
