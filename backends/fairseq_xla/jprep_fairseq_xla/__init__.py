"""jprep's backend for fairseq, on torch_xla or a CPU. Importing this package imports no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """Return the planner by name; it is imported when the backend is used."""
    return {"fairseq-xla": "jprep_fairseq_xla.backend:FairseqXla"}
