"""The backend new-backend for jprep. Importing this package imports no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """Return the planner by name; it is imported when the backend is used."""
    return {"new-backend": "jprep_new_backend.backend:NewBackend"}
