"""Records of failed tasks, which the command that waits for them reads."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.queue.manifest import FAILURES
from jprep.errors import ConfigError, DamagedError, InputError, JprepError, MachineError
from jprep.io.atomic import write_atomic
from jprep.plurals import counted

LOG_VARIABLE = "JPREP_JOB_LOG"
"""The environment variable in which a job's script gives the path of its log."""


class Failure(msgspec.Struct, frozen=True):
    """A failed task.

    Attributes:
        task: its id.
        what: what happened.
        where: where.
        fix: how to fix it.
        code: the exit code of the error's kind.
        host: the machine that ran it.
        log: the log of the job that ran it; "" if it is not known.
        final: whether another attempt would fail in the same way.
    """

    task: str
    what: str
    where: str
    fix: str
    code: int = 1
    host: str = ""
    log: str = ""
    final: bool = False

    def error(self, others: int) -> JprepError:
        """Return the error that ends a command.

        Args:
            others: number of other failed tasks.
        """
        kinds = {kind.exit_code: kind for kind in (ConfigError, MachineError, InputError)}
        more = f" (and {counted(others, 'more task')})" if others else ""
        place = [f"task {self.task}{more}", *([f"on {self.host}"] if self.host else [])]
        detail = [self.where] if self.where and self.where != f"task {self.task}" else []
        log = [f"log {self.log}"] if self.log else []
        return kinds.get(self.code, JprepError)(self.what, where=", ".join([*place, *detail, *log]), fix=self.fix)


def record_failure(folder: Path, task: str, error: JprepError) -> Failure:
    """Write the record of a failed task.

    Args:
        folder: the folder of the queue.
        task: the task's id.
        error: what it raised.

    Raises:
        MachineError: the disk is full or not writable.
    """
    host, log = socket.gethostname(), os.environ.get(LOG_VARIABLE, "")
    host = os.environ.get("SLURMD_NODENAME", host)
    final = isinstance(error, ConfigError | InputError) and not isinstance(error, DamagedError)
    failure = Failure(task, error.what, error.where, error.fix, error.exit_code, host, log, final)
    write_atomic(folder / FAILURES / f"{task}.json", encode_checksummed(failure))
    return failure


def read_failures(folder: Path) -> dict[str, Failure]:
    """Return the records of a queue by task, in the order of the tasks; damaged ones are left out."""
    found: dict[str, Failure] = {}
    for path in sorted((folder / FAILURES).glob("*.json")):
        try:
            failure = decode_checksummed(path.read_bytes(), Failure)
        except (ValueError, OSError):  # it is being replaced, or damaged: the task has no receipt, which is enough
            continue
        found[failure.task] = failure
    return found


def clear_failures(folder: Path) -> None:
    """Delete the records before another attempt."""
    for path in (folder / FAILURES).glob("*.json"):
        path.unlink(missing_ok=True)
