"""jprep's backend for DeepSpeed. Importing this package loads no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """The light half, imported when it is asked for."""
    return {"deepspeed": "jprep_deepspeed.backend:DeepSpeed"}
