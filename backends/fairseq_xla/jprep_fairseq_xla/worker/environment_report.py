"""Report what the worker's environment has; the planner's `check` runs it there in a subprocess."""

from __future__ import annotations

from importlib.metadata import version

from jprep.errors import MachineError
from jprep_fairseq_xla.planning.versions import INSTALL_COMMAND
from jprep_fairseq_xla.worker.patches import import_fairseq


def print_environment_report(device: str) -> int:
    """Import what a worker would, and print the versions; or print the problem, and on the next line its fix.

    Args:
        device: `cpu`, `cuda` or `xla`.

    Returns:
        0, or 1 if there is a problem.
    """
    names = ["fairseq", "torch"] + (["torch_xla"] if device == "xla" else [])
    try:
        import_fairseq(device)
    except MachineError as error:
        report, code = f"{error.what}\n{error.fix}", 1
    except ImportError as error:
        report, code = f"cannot import {' or '.join(names)}: {error}\n{INSTALL_COMMAND.format(device)}", 1
    else:
        report, code = ", ".join(f"{name} {version(name)}" for name in names), 0
    print(report)  # noqa: T201
    return code
