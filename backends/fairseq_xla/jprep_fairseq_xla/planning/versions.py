"""The versions that the patches are for.

This module imports no framework: a torch_xla next to a different PyTorch than its own cannot be imported.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from jprep.errors import MachineError

FAIRSEQ_VERSION = "0.12.2"
TORCH_XLA_VERSION = "2.9."
"""Of torch_xla, and of the PyTorch that it was built for."""

INSTALL_COMMAND = "jprep backends install fairseq-xla --set device={} --restart"
"""The command that installs the environment for a device."""


def check_versions(device: str, installed: Callable[[str], str] = version) -> None:
    """Check that the installed versions are those that the patches are for, before any of them is imported.

    Args:
        device: `cpu`, `cuda` or `xla`.
        installed: returns the version of a distribution.

    Raises:
        MachineError: a version differs; the fix is the command that installs the environment.
    """
    required = {"fairseq": FAIRSEQ_VERSION}
    if device == "xla":
        required |= {"torch": TORCH_XLA_VERSION, "torch_xla": TORCH_XLA_VERSION}
    for name, prefix in required.items():
        found = _version(name, installed)
        if not found.startswith(prefix):
            what = f"{name} {found or 'is not installed'}, but jprep-fairseq-xla patches {name} {prefix.rstrip('.')}"
            where = f"train.backend.fairseq-xla, device {device}"
            raise MachineError(what, where=where, fix=INSTALL_COMMAND.format(device))


def _version(name: str, installed: Callable[[str], str]) -> str:
    try:
        return installed(name)
    except PackageNotFoundError:
        return ""
