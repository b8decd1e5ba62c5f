"""Check a machine: what is installed, what is missing, and the command that fixes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import TIMEOUT_MAX
from typing import NamedTuple

from jprep.doctor import backends, executors, machine, segmenters
from jprep.doctor.time_limit import run_with_limit
from jprep.train.backend import Finding


class CheckGroup(NamedTuple):
    """The findings of one group of checks."""

    title: str
    findings: list[Finding]


_MACHINE: dict[str, Callable[[], list[Finding]]] = {
    "Python": machine.check_python,
    "machine": machine.check_resources,
    "disk": machine.check_disks,
    "locks": machine.check_locks,
    "accelerators": machine.check_accelerators,
}
_CHECKS = _MACHINE | {
    "segmenters": segmenters.check_segmenters,
    "executors": executors.check_executors,
    "plugins": backends.check_plugins,
    "backends": backends.check_backends,
}
_LIMITS = {"backends": TIMEOUT_MAX}  # each backend has its own limit


def examine() -> list[CheckGroup]:
    """Run all checks. A check that hangs is abandoned, and a check that fails is a finding."""
    return [CheckGroup(title, run_with_limit(check, title, _LIMITS.get(title))) for title, check in _CHECKS.items()]


def examine_backend(backend: str, overrides: Iterable[str] = ()) -> list[CheckGroup]:
    """Check the machine and one backend.

    Args:
        backend: the backend's name.
        overrides: `option=value` settings of its options.

    Raises:
        ConfigError: there is no such backend or option.
    """
    found = backends.check_backend(backend, overrides)
    return [
        *(CheckGroup(title, run_with_limit(check, title)) for title, check in _MACHINE.items()),
        CheckGroup("backend", found),
    ]
