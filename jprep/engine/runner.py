"""Runs a stage: skips what is committed, refuses what belongs to other work, commits the rest."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import msgspec

from jprep.engine.checksummed_json import decode_checksummed, encode_checksummed
from jprep.engine.fingerprint import fingerprint, plain
from jprep.engine.mismatch import describe_mismatch
from jprep.engine.stage import Output, Receipt, Result, Stage, Task
from jprep.errors import MismatchError
from jprep.io.atomic import write_atomic
from jprep.io.failpoints import failpoint
from jprep.io.verified_files import find_damage, read_if_exists

_log = logging.getLogger(__name__)


class ProgressReporter(Protocol):
    """Watches a run."""

    def begin(self, stage: str, total: int) -> None:
        """A stage begins; `total` is the sum of its tasks' weights, or 0."""

    def advance(self, weight: int, receipt: Receipt, *, fresh: bool) -> None:
        """A task is committed; not `fresh` if an earlier run had done it."""


class Executor(Protocol):
    """Runs tasks somewhere."""

    def map(self, job: TaskRunner, tasks: Iterator[Task]) -> Iterator[tuple[Task, Receipt]]:
        """Run `job(task)` for each task, in any order; yield each receipt as it is committed."""

    def close(self) -> None:
        """Let go of what was kept between two calls of `map`."""


class TaskRunner(msgspec.Struct, frozen=True):
    """A stage bound to its directory: called with a task, in any process, it commits the task and its receipt."""

    stage: Any
    root: Path
    receipts: Path
    fingerprint: str

    def __call__(self, task: Task) -> Receipt:
        """Run one task and commit it."""
        result: Result = self.stage.run(task, self.root)
        receipt = Receipt(
            task.id, task.digest, self.fingerprint, result.outputs, _sorted(result.counts), _sorted(result.rejects)
        )
        write_atomic(self.receipts / f"{task.id}.json", encode_checksummed(receipt))
        failpoint("receipt.written")
        return receipt

    def done(self, task: Task) -> Receipt | None:
        """Return the task's receipt, if it is committed and its outputs are what was written.

        A task whose receipt or output is damaged is to be done again, and a warning says so.

        Raises:
            MismatchError: the receipt is of other input, or of other work.
            MachineError: the receipt or an output cannot be read.
        """
        path = self.receipts / f"{task.id}.json"
        if (data := read_if_exists(path)) is None:
            return None
        try:
            receipt = decode_checksummed(data, Receipt)
        except ValueError as error:
            _warn(path, f"is damaged ({error})")
            return None
        if (receipt.digest, receipt.fingerprint) != (task.digest, self.fingerprint):
            raise MismatchError("the input is not what it was", where=task.id, fix=_OTHER_PLACE)
        for output in receipt.outputs:
            if damage := find_damage(self.root / output.path, output.sha256):
                _warn(self.root / output.path, damage)
                return None
        return receipt


def _warn(path: Path, damage: str) -> None:
    _log.warning("%s %s: the task that wrote it is done again", path, damage)


_OTHER_PLACE = "give the first command's inputs and options again, or another -o, or --restart to replace this work"


def run_stage(stage: Stage, root: Path, state: Path, executor: Executor, progress: ProgressReporter) -> list[Receipt]:
    """Bring a stage to its end.

    Args:
        stage: the stage.
        root: where its outputs' paths begin.
        state: the folder that holds its manifest and receipts.
        executor: where its tasks run.
        progress: is told of each task.

    Returns:
        every task's receipt, in the tasks' order.

    Raises:
        MismatchError: `state` holds other work.
        JprepError: a task failed; what was committed stays.
    """
    job = TaskRunner(stage, root, state / "receipts", _claim(stage, state))
    failpoint("stage.begun")
    progress.begin(stage.name, stage.total())
    receipts: dict[str, Receipt] = {}

    def missing() -> Iterator[Task]:
        for task in stage.tasks():
            if receipt := job.done(task):
                receipts[task.id] = receipt
                progress.advance(task.weight, receipt, fresh=False)
            else:
                yield task

    try:
        for task, receipt in executor.map(job, missing()):
            receipts[task.id] = receipt
            progress.advance(task.weight, receipt, fresh=True)
    finally:
        stage.close()
    failpoint("stage.done")
    return [receipts[name] for name in sorted(receipts)]


def _claim(stage: Stage, state: Path) -> str:
    """Write the stage's manifest, or see that the existing one is ours."""
    ours, path = plain(stage.fields()), state / "stage.json"
    mark = fingerprint(ours)
    if theirs := read_claim(path):
        refuse_mismatch(ours, theirs, state)
    else:
        _refuse_receipts_of_other_work(state / "receipts", mark)
        write_atomic(path, encode_checksummed(ours))
    return mark


def _refuse_receipts_of_other_work(receipts: Path, mark: str) -> None:
    """Raise MismatchError if a receipt, where the stage's manifest is damaged, says that this is other work."""
    for path in receipts.glob("*.json"):
        with contextlib.suppress(ValueError):  # a damaged receipt says nothing
            if decode_checksummed(path.read_bytes(), Receipt).fingerprint != mark:
                raise MismatchError("this is other work", where=str(receipts.parent), fix=_OTHER_PLACE)


def read_claim(path: Path) -> dict[str, Any]:
    """Read a file that says what work lies in its directory.

    Returns:
        what `seal` was given; nothing if there is no such file, if it is empty, or if it is damaged: then a warning
        says that it is written again, and the receipts beside it still tell whose work this is.

    Raises:
        MachineError: it cannot be read.
    """
    try:
        data = read_if_exists(path)
        return decode_checksummed(data, dict[str, Any]) if data else {}
    except ValueError as error:
        _log.warning("%s is damaged (%s): it is written again", path, error)
        return {}


def refuse_mismatch(ours: dict[str, Any], theirs: dict[str, Any], where: Path, fix: str = _OTHER_PLACE) -> None:
    """Raise MismatchError if the two sets of fields differ, naming the fields."""
    if found := describe_mismatch(ours, theirs):
        more = f" (and {len(found) - 3} more)" if len(found) > 3 else ""
        raise MismatchError(f"this folder holds other work: {'; '.join(found[:3])}{more}", where=str(where), fix=fix)


def sum_counts(parts: list[dict[str, int]]) -> dict[str, int]:
    """The sum of many counts, sorted by name."""
    total: dict[str, int] = {}
    for part in parts:
        for name, count in part.items():
            total[name] = total.get(name, 0) + count
    return _sorted(total)


def list_outputs(receipts: list[Receipt]) -> list[Output]:
    """All outputs, in the tasks' order."""
    return [output for receipt in receipts for output in receipt.outputs]


def _sorted(counts: dict[str, int]) -> dict[str, int]:
    return {name: counts[name] for name in sorted(counts) if counts[name]}
