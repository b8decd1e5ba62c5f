"""What this process holds in shared directories, checked before each file gets its final name."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import msgspec

from jprep.errors import MachineError
from jprep.io.shared.heartbeats import list_beats


class OwnershipFile(msgspec.Struct, frozen=True):
    """A lease, a registration or another file of a process, for its worker processes.

    Attributes:
        folder: the directory of its file.
        session: how the file's name begins.
        worker: whether it is the registration of a worker.
        command: whether it is the file of a command whose workers do not inherit its lock.
    """

    folder: Path
    session: str
    worker: bool = False
    command: bool = False

    def check(self) -> None:
        """Raise MachineError if it has been taken away."""
        with contextlib.suppress(OSError):  # a transient error; the write that follows will tell
            if not (self._is_listed() or self._is_listed()):  # a listing may miss a file that is just being renamed
                raise self._error()

    def _error(self) -> MachineError:
        if self.command:
            return forgotten_error(self.folder.parent.parent)
        return ended_error(self.folder.parent.parent) if self.worker else lost_error(self.folder.parent)

    def _is_listed(self) -> bool:
        return any(name.startswith(self.session) for name in list_beats(self.folder))


class Ownership(Protocol):
    """What a process holds in a shared directory, such as a lease."""

    @property
    def ownership_file(self) -> OwnershipFile | None:
        """What its worker processes check."""

    def check(self) -> None:
        """Raise MachineError if this process does not hold it any more."""

    def give_up(self) -> None:
        """Release it at once, because this process is about to kill itself."""


_owned: list[Ownership] = []
_adopted: tuple[OwnershipFile, ...] = ()


def lost_error(where: Path) -> MachineError:
    """Return the error of a process that has lost a directory to another one."""
    what = "another process has taken over this directory, because this one was suspended or cut off from it"
    fix = "nothing more is written here; run the same command again once the other process has ended"
    return MachineError(what, where=str(where), fix=fix)


def ended_error(where: Path) -> MachineError:
    """Return the error of a worker whose registration has been ended."""
    what = "this directory was finished or restarted by another process, which ends its workers"
    fix = "nothing more is written here; see the output of the other process"
    return MachineError(what, where=str(where), fix=fix)


def forgotten_error(where: Path) -> MachineError:
    """Return the error of a worker whose command does not wait for it any more."""
    what = "the command that began this task has ended, or another one has begun in this directory"
    return MachineError(what, where=str(where), fix="nothing more is written here; run the same command again")


def check_ownership() -> None:
    """Check everything that this process holds. On local disks nothing is held in this way.

    Raises:
        MachineError: another process has taken over a directory: nothing more may be written there.
    """
    for each in [*_owned]:
        each.check()
    for file in _adopted:
        file.check()


def release_all() -> None:
    """Release everything that this process holds, so that other hosts need not watch it: it kills itself next."""
    for each in [*_owned]:
        each.give_up()


@contextlib.contextmanager
def checked(ownership: Ownership) -> Iterator[None]:
    """Check something before each commit for the duration of the block."""
    _owned.append(ownership)
    try:
        yield
    finally:
        _owned.remove(ownership)


def ownership_files() -> tuple[OwnershipFile, ...]:
    """Return what worker processes of this process have to check."""
    return (*(each.ownership_file for each in _owned if each.ownership_file), *_adopted)


@contextlib.contextmanager
def adopted(files: tuple[OwnershipFile, ...]) -> Iterator[None]:
    """Check what the parent process holds, for the duration of the block."""
    global _adopted
    before, _adopted = _adopted, files
    try:
        yield
    finally:
        _adopted = before
