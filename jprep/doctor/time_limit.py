"""Calls what may hang or fail: strangers' code, programs, disks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jprep.errors import JprepError
from jprep.train.backend import Finding
from jprep.train.launcher.import_probe import IMPORT_TIMEOUT

SECONDS = 2 * IMPORT_TIMEOUT + 60.0
"""Time limit of a check. A backend's imports a framework twice, and each import may take `IMPORT_TIMEOUT` seconds."""


def run_with_limit(look: Callable[[], list[Finding]], what: str, seconds: float | None = None) -> list[Finding]:
    """Have a look, or say why there was none.

    Args:
        look: a function that finds something.
        what: what it looks at.
        seconds: how long it may take; `SECONDS` by default. A look that hangs is left behind.
    """
    found: list[Finding] = []
    seconds = SECONDS if seconds is None else seconds
    looking = threading.Thread(target=_look, args=(look, what, found), daemon=True)
    looking.start()
    looking.join(seconds)
    if looking.is_alive():
        slow = f"{what}: no answer within {seconds:g} seconds: it hangs, or this machine is slow or busy"
        return [Finding(slow, "error", "run `jprep doctor` again when the machine is idle")]
    return found


def _look(look: Callable[[], list[Finding]], what: str, found: list[Finding]) -> None:
    try:
        found += look()
    except JprepError as error:
        found.append(Finding(f"{what}: {error.what}", "error", error.fix))
    except Exception as fault:  # a backend's or a plugin's, and a disk's: all of them are findings
        found.append(Finding(f"{what}: {type(fault).__name__}: {fault}", "error", "report it to whoever made it"))
