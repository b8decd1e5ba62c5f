"""Named points in the code where a test can kill jprep, raise an error or fill the disk.

`JPREP_FAILPOINT=NAME[@N][=ACTION]` activates one: when a process reaches it for the N-th time (by default the first),
the action happens: `kill` (SIGKILL to the process group; the default), `die` (SIGKILL to this process), `raise` (an
error) or `enospc` (OSError, disk full). An inactive failpoint costs one test of a module constant.
"""

from __future__ import annotations

import errno
import os
import signal

NAMES = (
    "output.opened",  # a temporary output file is open
    "output.written",  # it is complete, not yet renamed
    "output.renamed",  # it is renamed, no receipt names it yet
    "receipt.written",  # the receipt is written
    "inputs.recorded",  # the record of a task's consumed inputs is written, they are not deleted yet
    "inputs.deleted",  # they are deleted
    "stage.begun",  # a stage's manifest is written, no task is done
    "stage.done",  # the last task of a stage is committed
    "corpus.sealing",  # everything but corpus.json is written
    "tokenizer.counted",  # words are counted, nothing is learned
    "tokenizer.learnt",  # the vocabulary is learned, nothing is written
    "tokenizer.moved",  # everything but card.json is in place
    "run.event",  # an event is about to be appended
    "run.filled",  # a checkpoint's files are written, not yet hashed
    "run.joined",  # pieces of several processes are joined to whole tensors, not yet deleted
    "run.hashed",  # everything but COMMIT.json is written
    "run.committed",  # COMMIT.json is written, the checkpoint not yet renamed
    "run.renamed",  # it is renamed, no older one is deleted yet
    "run.unnamed",  # an older one is renamed for deletion, not yet deleted
    "compare.scored",  # the scores of a model are written
    "judge.replied",  # a reply of a language model is on the disk
)

_ACTIVE = os.environ.get("JPREP_FAILPOINT", "")
_passed = 0


def failpoint(name: str) -> None:
    """Do the action of `JPREP_FAILPOINT`, if that names this failpoint."""
    if _ACTIVE:
        _act(name)


def _act(name: str) -> None:
    global _passed
    active, _, action = _ACTIVE.partition("=")
    active, _, nth = active.partition("@")
    if active not in NAMES:
        raise ValueError(f"JPREP_FAILPOINT={_ACTIVE!r}: no such failpoint; available: {', '.join(NAMES)}")
    if active != name:
        return
    _passed += 1
    if _passed == int(nth or 1):
        _ACTIONS[action or "kill"]()


def _kill_all() -> None:
    os.killpg(os.getpgrp(), signal.SIGKILL)


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _raise() -> None:
    raise RuntimeError("raised by a failpoint")


def _enospc() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "failpoint")


_ACTIONS = {"kill": _kill_all, "die": _die, "raise": _raise, "enospc": _enospc}
