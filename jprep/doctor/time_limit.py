"""Run checks that may hang or fail: code of plugins, programs, disks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jprep.errors import JprepError
from jprep.train.backend import Finding
from jprep.train.launcher.import_probe import IMPORT_TIMEOUT

SECONDS = 2 * IMPORT_TIMEOUT + 60.0
"""Time limit of a check. A backend imports its framework twice, each time for up to `IMPORT_TIMEOUT` seconds."""


def run_with_limit(check: Callable[[], list[Finding]], what: str, seconds: float | None = None) -> list[Finding]:
    """Run a check with a time limit.

    Args:
        check: the check.
        what: its subject, for messages.
        seconds: the limit; `SECONDS` by default. A check that hangs is abandoned.
    """
    found: list[Finding] = []
    seconds = SECONDS if seconds is None else seconds
    thread = threading.Thread(target=_run, args=(check, what, found), daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        slow = f"{what}: no answer within {seconds:g} seconds: it hangs, or this machine is slow or busy"
        return [Finding(slow, "error", "run `jprep doctor` again when the machine is idle")]
    return found


def _run(check: Callable[[], list[Finding]], what: str, found: list[Finding]) -> None:
    try:
        found += check()
    except JprepError as error:
        found.append(Finding(f"{what}: {error.what}", "error", error.fix))
    except Exception as fault:  # errors of backends, plugins and disks are findings
        found.append(Finding(f"{what}: {type(fault).__name__}: {fault}", "error", "report it to its maintainer"))
