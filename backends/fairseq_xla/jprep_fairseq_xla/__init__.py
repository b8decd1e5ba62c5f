"""jprep's backend for fairseq, on torch_xla or a CPU. Importing this package loads no framework."""

from __future__ import annotations

from jprep.plugins import hookimpl


@hookimpl
def jprep_backends() -> dict[str, str]:
    """The light half, imported when it is asked for."""
    return {"fairseq-xla": "jprep_fairseq_xla.backend:FairseqXla"}
