"""Calls what may hang or fail: strangers' code, programs, disks."""

from __future__ import annotations

import threading
from collections.abc import Callable

from jprep.errors import JprepError
from jprep.train.backend import Finding

SECONDS = 180.0
"""That a look may take: a framework on a slow disk takes a minute to be imported."""


def within(look: Callable[[], list[Finding]], what: str, seconds: float | None = None) -> list[Finding]:
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
        return [Finding(f"{what}: no answer within {seconds:g} seconds", "error", "look why it hangs")]
    return found


def _look(look: Callable[[], list[Finding]], what: str, found: list[Finding]) -> None:
    try:
        found += look()
    except JprepError as error:
        found.append(Finding(f"{what}: {error.what}", "error", error.fix))
    except Exception as fault:  # a backend's or a plugin's, and a disk's: all of them are findings
        found.append(Finding(f"{what}: {type(fault).__name__}: {fault}", "error", "report it to whoever made it"))
