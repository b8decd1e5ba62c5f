"""Which versions the mends are for. It imports no framework: a torch_xla beside another PyTorch does not import."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from jprep.errors import MachineError

FAIRSEQ_VERSION = "0.12.2"
TORCH_XLA_VERSION = "2.9."
"""Of torch_xla, and of the PyTorch that it was built for."""

INSTALL_COMMAND = "jprep backends install fairseq-xla --set device={} --restart"
"""The command that makes the right environment for a device."""


def check_versions(device: str, of: Callable[[str], str] = version) -> None:
    """See that this environment's versions are those that the mends are for, before any of them is imported.

    Args:
        device: `cpu` or `xla`.
        of: gives a distribution's version.

    Raises:
        MachineError: they are not, with the command that makes the right environment.
    """
    wanted = {"fairseq": FAIRSEQ_VERSION} | (
        {"torch": TORCH_XLA_VERSION, "torch_xla": TORCH_XLA_VERSION} if device == "xla" else {}
    )
    for name, start in wanted.items():
        found = _version(name, of)
        if not found.startswith(start):
            what = f"{name} {found or 'is not installed'}, and jprep-fairseq-xla mends {name} {start.rstrip('.')}"
            raise MachineError(
                what, where=f"train.backend.fairseq-xla, device {device}", fix=INSTALL_COMMAND.format(device)
            )


def _version(name: str, of: Callable[[str], str]) -> str:
    try:
        return of(name)
    except PackageNotFoundError:
        return ""
