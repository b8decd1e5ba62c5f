"""Looks at a machine: what jprep finds on it, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import TIMEOUT_MAX
from typing import NamedTuple

from jprep.doctor import backends, machine, segmenters
from jprep.doctor.time_limit import run_with_limit
from jprep.train.backend import Finding


class CheckGroup(NamedTuple):
    """Findings on one subject."""

    title: str
    findings: list[Finding]


_MACHINE: dict[str, Callable[[], list[Finding]]] = {
    "Python": machine.check_python,
    "machine": machine.check_resources,
    "disk": machine.check_disks,
    "accelerators": machine.check_accelerators,
}
_LOOKS = _MACHINE | {
    "segmenters": segmenters.check_segmenters,
    "plugins": backends.check_plugins,
    "backends": backends.check_backends,
}
_LIMITS = {"backends": TIMEOUT_MAX}  # each backend has a limit of its own


def examine() -> list[CheckGroup]:
    """Check everything. A check that hangs is abandoned, and whatever fails is a finding."""
    return [CheckGroup(title, run_with_limit(look, title, _LIMITS.get(title))) for title, look in _LOOKS.items()]


def examine_backend(backend: str, overrides: Iterable[str] = ()) -> list[CheckGroup]:
    """Look at the machine, and at one backend with options of its own.

    Args:
        backend: its name.
        overrides: `option=value` settings of its own options.

    Raises:
        ConfigError: there is no such backend or option.
    """
    found = backends.check_backend(backend, overrides)
    return [
        *(CheckGroup(title, run_with_limit(look, title)) for title, look in _MACHINE.items()),
        CheckGroup("backend", found),
    ]
