"""Intermediate files that are deleted as soon as what was made from them is finished.

A small record takes the place of a deleted file, or of all files of a directory. It names the receipts of the tasks
that have read them. While those receipts and their outputs are intact, the task that wrote the file counts as done;
otherwise it is repeated. Records are not synced to the disk: if one is lost, a task is repeated and nothing else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.stage import Output, Receipt
from jprep.errors import DamagedError
from jprep.io.atomic import temporary_name
from jprep.io.failpoints import failpoint
from jprep.io.os_errors import write_error
from jprep.io.safe_names import inner_path
from jprep.io.verified_files import RUN_AGAIN, find_damage, find_range_damage, read_if_exists

_log = logging.getLogger(__name__)

SUFFIX = ".consumed"
"""Suffix of a record, after the name of a deleted file or of the directory of the deleted files."""


class Consumed(msgspec.Struct, frozen=True):
    """The record of deleted files.

    Attributes:
        files: SHA-256 of each deleted file, by its path.
        receipts: paths of the receipts of the tasks that have read them. All paths are relative to the stage's root.
    """

    files: dict[str, str]
    receipts: list[str]

    def __post_init__(self) -> None:
        """Refuse paths outside the directory."""
        for path in (*self.files, *self.receipts):
            inner_path(path)


def consume_files(root: Path, files: Sequence[Output], receipts: Iterable[Path], name: str = "") -> None:
    """Delete files that finished tasks have read, and write the record that says so. Idempotent.

    Args:
        root: the directory that paths are relative to.
        files: the files.
        receipts: the receipts of all tasks that read one of them.
        name: where the record is: the directory of the files, or "" for a record of each file.

    Raises:
        MachineError: the directory cannot be written.
    """
    present = [file for file in files if (root / file.path).exists()]
    if not present:
        return
    readers = [os.path.relpath(path, root) for path in receipts]
    try:
        if name:
            _write_record(root / name, Consumed({file.path: file.sha256 for file in files}, readers))
        else:
            for file in present:
                _write_record(root / file.path, Consumed({file.path: file.sha256}, readers))
        failpoint("inputs.recorded")
        for file in present:
            (root / file.path).unlink(missing_ok=True)
    except OSError as error:
        raise write_error(error, root / present[0].path) from error
    failpoint("inputs.deleted")


def _write_record(path: Path, record: Consumed) -> None:
    temporary = temporary_name(_record_of(path))
    temporary.write_bytes(encode_checksummed(record))
    temporary.replace(_record_of(path))


def _record_of(path: Path) -> Path:
    return path.with_name(path.name + SUFFIX)


class OutputChecks:
    """Checks whether outputs are intact or no longer needed; each receipt that a record names is checked once."""

    def __init__(self) -> None:
        self._receipts: dict[Path, bool] = {}
        self._folders: dict[Path, Consumed | None] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Forget what was checked: another process checks for itself."""
        return OutputChecks, ()

    def find_damage(self, root: Path, output: Output) -> str:
        """Return what is wrong with an output, or "" if it is intact, or deleted and no longer needed.

        Args:
            root: the directory that paths are relative to.
            output: the output.

        Raises:
            MachineError: it cannot be read.
        """
        path = root / output.path
        if not path.exists() and self.is_consumed(root, output):  # before it is waited for on a shared disk
            return ""
        if output.stop:
            damage = find_range_damage(path, output.start, output.stop, output.sha256)
        else:
            damage = find_damage(path, output.sha256)
        return "" if damage and self.is_consumed(root, output) else damage

    def verify(self, root: Path, outputs: Iterable[Output]) -> None:
        """Raise DamagedError for the first output that is damaged, or that is missing but still needed."""
        for output in outputs:
            if damage := self.find_damage(root, output):
                raise DamagedError(f"this file {damage}", where=str(root / output.path), fix=RUN_AGAIN)

    def is_consumed(self, root: Path, output: Output) -> bool:
        """Return whether a record says that a file was read and deleted, and what was made from it is intact.

        Args:
            root: the directory that paths are relative to.
            output: the file.

        Raises:
            MachineError: a record or a receipt cannot be read.
        """
        path = root / output.path
        if self._folders.get(path.parent) is None:  # a record may become visible late
            self._folders[path.parent] = _read_record(path.parent)
        return any(
            record is not None
            and record.files.get(output.path) == output.sha256
            and self._are_intact(root, record.receipts)
            for record in (_read_record(path), self._folders[path.parent])
        )

    def _are_intact(self, root: Path, receipts: Iterable[str]) -> bool:
        """Return whether all receipts are intact."""
        intact = [self._is_intact(root, receipt) for receipt in receipts]  # of all, since it deletes damaged ones
        return all(intact)

    def _is_intact(self, root: Path, receipt: str) -> bool:
        """Return whether a receipt and the outputs that it names are intact, or no longer needed."""
        path = root / receipt
        if path not in self._receipts:
            found = read_receipt(path)
            self._receipts[path] = found is not None and self.keep_if_intact(root, path, found)
        return self._receipts[path]

    def keep_if_intact(self, root: Path, path: Path, receipt: Receipt) -> bool:
        """Return whether all outputs of a receipt are intact or no longer needed; if not, warn and delete the receipt.

        Args:
            root: the directory that the outputs' paths are relative to.
            path: the receipt's file.
            receipt: the receipt.

        Raises:
            MachineError: an output cannot be read.
        """
        for output in receipt.outputs:
            if damage := self.find_damage(root, output):
                _discard(path, root / output.path, damage)
                return False
        return True


def read_receipt(path: Path) -> Receipt | None:
    """Return a receipt; None if there is none, or if it is damaged: then warn and delete it.

    Raises:
        MachineError: it cannot be read.
    """
    if (data := read_if_exists(path)) is None:
        return None
    try:
        return decode_checksummed(data, Receipt)
    except ValueError as error:
        _discard(path, path, f"is damaged ({error})")
        return None


def _discard(receipt: Path, path: Path, damage: str) -> None:
    """Warn of a damaged file, and delete the receipt: processes elsewhere take a receipt as a sign of finished work."""
    _log.warning("%s %s: the task that wrote it is done again", path, damage)
    receipt.unlink(missing_ok=True)


def _read_record(path: Path) -> Consumed | None:
    """Read the record for a file or a directory; None if there is none, or if it is damaged."""
    data = read_if_exists(_record_of(path))
    try:
        return decode_checksummed(data, Consumed) if data else None
    except ValueError:
        return None
