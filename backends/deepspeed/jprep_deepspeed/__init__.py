"""jprep's backend for DeepSpeed. Importing this package loads no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """Register the planner; its module is imported when the backend is used."""
    return {"deepspeed": "jprep_deepspeed.backend:DeepSpeed"}
