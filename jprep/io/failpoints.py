"""Named places where a test can make jprep die, fail or run out of disk.

`JPREP_FAILPOINT=NAME[@N][=ACTION]` arms one: at its N-th passing (default the first) in any one process the action
happens: `kill` (SIGKILL to this process's whole group; the default), `die` (this process alone), `raise` (an error) or
`enospc` (OSError, disk full).
Unarmed, a failpoint costs one look at a module constant.
"""

from __future__ import annotations

import errno
import os
import signal

NAMES = (
    "output.opened",  # a temporary output file was made
    "output.written",  # it is whole, and not yet under its final name
    "output.renamed",  # it is under its final name, and no receipt says so
    "receipt.written",  # the receipt says so
    "stage.begun",  # a stage's manifest is written, none of its tasks is done
    "stage.done",  # the last task of a stage is committed
    "corpus.sealing",  # all is done but corpus.json
    "tokenizer.counted",  # words are counted, nothing is learnt
    "tokenizer.learnt",  # the vocabulary is learnt, nothing of it is written
    "tokenizer.moved",  # all is done but card.json
    "run.event",  # an event is about to be appended
    "run.filled",  # a checkpoint's files are written, not yet hashed
    "run.hashed",  # all of it is there but COMMIT.json
    "run.committed",  # COMMIT.json too, not yet under its final name
    "run.renamed",  # it stands, nothing older is deleted
    "run.unnamed",  # an older one has lost its name, and is not yet deleted
)

_ARMED = os.environ.get("JPREP_FAILPOINT", "")
_passed = 0


def failpoint(name: str) -> None:
    """Do what `JPREP_FAILPOINT` says, if it names this place."""
    if _ARMED:
        _act(name)


def _act(name: str) -> None:
    global _passed
    place, _, action = _ARMED.partition("=")
    place, _, nth = place.partition("@")
    if place not in NAMES:
        raise ValueError(f"JPREP_FAILPOINT={_ARMED!r}: no such failpoint; there are {', '.join(NAMES)}")
    if place != name:
        return
    _passed += 1
    if _passed == int(nth or 1):
        _ACTIONS[action or "kill"]()


def _kill_all() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise RuntimeError("a failpoint raised this")


def _enospc() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "failpoint")


_ACTIONS = {"kill": _kill_all, "die": _die, "raise": _raise, "enospc": _enospc}
