"""Check that a node shares the work directory: it writes a probe beside a token, and the other machine sees it."""

from __future__ import annotations

from pathlib import Path

from jprep.engine.executors.environment import node_name
from jprep.errors import MachineError
from jprep.io.atomic import TEMPORARY_MARK, temporary_name

_PROBE = "node"
"""Name of the probes of nodes, without the suffix of temporary files."""
_SHARE = "use an output directory on a file system that all nodes mount at the same path"


def write_probe(token: Path, content: str) -> Path:
    """Read a file that the machine that started the work wrote, and write another beside it.

    Args:
        token: the file.
        content: its expected content.

    Returns:
        the written file, which that machine must see, and deletes.

    Raises:
        MachineError: this node does not see the file, or cannot write beside it.
    """
    place = f"{token.parent} on {node_name()}"
    try:
        if token.read_text(encoding="utf-8") != content:
            raise MachineError(
                "this node has another directory in the place of the work directory", where=place, fix=_SHARE
            )
        probe = temporary_name(token.with_name(_PROBE))
        probe.write_text(content, encoding="utf-8")
        if not token.exists():  # the stage has ended meanwhile, and `delete_probes` may not have seen this one
            probe.unlink(missing_ok=True)
    except OSError as error:
        what = f"this node does not share the work directory: {error.strerror}"
        raise MachineError(what, where=place, fix=_SHARE) from error
    return probe


def confirm_probe(probe: Path, node: str) -> None:
    """Delete the probe of a node.

    Raises:
        MachineError: this machine does not see it.
    """
    try:
        probe.unlink()
    except OSError as error:
        what = "what this node writes is not seen by the machine that started the work"
        raise MachineError(what, where=f"{probe.parent} on {node}", fix=_SHARE) from error


def delete_probes(token: Path) -> None:
    """Delete the probes of nodes that were not waited for. The token must be deleted first: then none is added."""
    for probe in token.parent.glob(f"{_PROBE}{TEMPORARY_MARK}*"):
        probe.unlink(missing_ok=True)
