"""Looks at a machine: what jprep finds on it, what is missing, and the command that mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from threading import TIMEOUT_MAX
from typing import NamedTuple

from jprep.doctor import backends, machine, segmenters
from jprep.doctor.patience import within
from jprep.train.backend import Finding


class Section(NamedTuple):
    """Findings on one subject."""

    title: str
    findings: list[Finding]


_MACHINE: dict[str, Callable[[], list[Finding]]] = {
    "Python": machine.python,
    "machine": machine.resources,
    "disk": machine.disks,
    "accelerators": machine.accelerators,
}
_LOOKS = _MACHINE | {
    "segmenters": segmenters.segmenters,
    "plugins": backends.found_plugins,
    "backends": backends.backends,
}
_LIMITS = {"backends": TIMEOUT_MAX}  # each backend has a limit of its own


def examine() -> list[Section]:
    """Check everything. A check that hangs is abandoned, and whatever fails is a finding."""
    return [Section(title, within(look, title, _LIMITS.get(title))) for title, look in _LOOKS.items()]


def examine_for(backend: str, overrides: Iterable[str] = ()) -> list[Section]:
    """Look at the machine, and at one backend with options of its own.

    Args:
        backend: its name.
        overrides: `option=value` settings of its own options.

    Raises:
        ConfigError: there is no such backend or option.
    """
    found = backends.backend(backend, overrides)
    return [*(Section(title, within(look, title)) for title, look in _MACHINE.items()), Section("backend", found)]
