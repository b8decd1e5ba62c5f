"""What an environment has, for the light half's `check`, which imports nothing of it."""

from __future__ import annotations

from importlib.metadata import version

from jprep.errors import MachineError
from jprep_fairseq_xla.planning.versions import INSTALL_COMMAND
from jprep_fairseq_xla.worker.patches import import_fairseq


def print_environment_report(device: str) -> int:
    """Import what a worker would, and print the versions; or what is wrong, and on the next line what mends it.

    Args:
        device: `cpu` or `xla`.

    Returns:
        0, or 1 where something is wrong.
    """
    names = ["fairseq", "torch"] + (["torch_xla"] if device == "xla" else [])
    try:
        import_fairseq(device)
    except MachineError as error:
        said, code = f"{error.what}\n{error.fix}", 1
    except ImportError as error:
        said, code = f"{' or '.join(names)} cannot be imported: {error}\n{INSTALL_COMMAND.format(device)}", 1
    else:
        said, code = ", ".join(f"{name} {version(name)}" for name in names), 0
    print(said)  # noqa: T201
    return code
