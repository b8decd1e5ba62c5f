"""jprep's backend for Keras 3, on TensorFlow or JAX. Importing this package imports no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """Return the planner by name; it is imported when the backend is used."""
    return {"keras": "jprep_keras.backend:Keras"}
